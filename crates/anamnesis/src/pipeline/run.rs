//! Running a plan: workers take tiles, read their windows, decode or encode them, and write the result.

use std::ops::Range;
use std::sync::mpsc;

use super::announced::announce;
use super::buffers::Buffers;
use super::encode::Encoding;
use super::measure::Distance;
use super::options::RememberOptions;
use super::plan::{Job, Plan, Work};
use super::report::{Collector, Complete, EventKind, FollowUp, Piece, Progress, WorkerEvent};
use super::scheduler::{Assignment, Output, Scheduler};
use super::sink::TileSink;
use super::tiles::Tile;
use super::values::Values;
use super::workers::{join, spawn};
use crate::cancel::CancelToken;
use crate::catalog::Extent;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// Fills the sink according to the plan. `watch` is called on the calling thread after every tile. Returns the
/// quantisation error of every job, in plan order.
pub(crate) fn run(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    sink: &dyn TileSink,
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Distance>> {
    let output = Output { plan, begin: Box::new(|| Ok(Box::new(sink))) };
    Ok(run_all(&[output], sources, options, watch)?.pop().unwrap_or_default())
}

/// [`run`] for several files, each of which is completed after its last byte. On an error, completed files remain.
pub(crate) fn run_all(
    outputs: &[Output<'_>],
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Vec<Distance>>> {
    let (threads, cpu, cancel) = (options.threads_used(), options.cpu_level(), &options.cancel_token());
    cancel.check()?;
    announce(outputs.iter().flat_map(|output| output.plan.jobs.iter().flat_map(|job| job.work.parts())), sources);
    let scheduler = &Scheduler::new(outputs, sources, threads);
    let (sender, receiver) = mpsc::channel();
    let worker = move || Worker {
        outputs,
        sources,
        scheduler,
        cancel,
        sender: sender.clone(),
        buffers: Buffers::new(cpu),
        encoding: Encoding::new(cpu),
        last: None,
    };
    let plans = outputs.iter().map(|output| output.plan).collect();
    let collector = Collector::new(plans, watch, options.on_tensor.as_ref());
    match threads {
        0 => run_here(worker(), &receiver, collector),
        _ => run_on_threads(threads, worker, &receiver, collector, outputs, scheduler),
    }
}

/// Runs one worker on the calling thread, and all other work between its tiles.
fn run_here(
    mut worker: Worker<'_, '_>,
    receiver: &mpsc::Receiver<WorkerEvent>,
    mut collector: Collector<'_>,
) -> Result<Vec<Vec<Distance>>> {
    let (outputs, scheduler) = (worker.outputs, worker.scheduler);
    loop {
        let has_more = worker.step()?;
        let mut failure = None;
        for event in receiver.try_iter() {
            collector.take(event, &mut |follow_up| {
                let done = match follow_up {
                    FollowUp::Flush(output) => flush(scheduler, output),
                    FollowUp::Finish(complete) => finish(outputs, scheduler, complete),
                };
                failure = failure.take().or(done.err());
                true
            });
        }
        match failure {
            Some(error) => return Err(error),
            None if has_more => {}
            None => return Ok(collector.distances()),
        }
    }
}

/// Runs workers on threads, one more to flush files and one to complete them.
fn run_on_threads<'r, 'a>(
    threads: usize,
    worker: impl Fn() -> Worker<'r, 'a>,
    receiver: &mpsc::Receiver<WorkerEvent>,
    mut collector: Collector<'_>,
    outputs: &'r [Output<'a>],
    scheduler: &'r Scheduler<'r, 'a>,
) -> Result<Vec<Vec<Distance>>> {
    std::thread::scope(|scope| {
        let start = |_| {
            let mut worker = worker();
            spawn(scope, move || {
                let _stop = StopOnPanic(scheduler);
                worker.work().inspect_err(|_| scheduler.stop())
            })
        };
        let workers = (0..threads).map(start).collect::<Result<Vec<_>>>().inspect_err(|_| scheduler.stop());
        // With it goes the last sender but those of the workers.
        drop(worker);
        let (written, flushes) = mpsc::sync_channel::<usize>(1);
        let flush = move |output| flush(scheduler, output);
        let flusher = spawn(scope, move || flushes.iter().try_for_each(flush).inspect_err(|_| scheduler.stop()));
        let (filled, finishes) = mpsc::channel();
        let finish = move |complete: Complete| finish(outputs, scheduler, complete);
        let finisher = spawn(scope, move || finishes.iter().try_for_each(finish).inspect_err(|_| scheduler.stop()));
        for event in receiver {
            // The error of a failed receiver is collected at the end.
            collector.take(event, &mut |follow_up| match follow_up {
                FollowUp::Flush(output) => written.try_send(output).is_ok(),
                FollowUp::Finish(complete) => filled.send(complete).is_ok(),
            });
        }
        drop((written, filled));
        let results = workers?.into_iter().chain([flusher?, finisher?]).map(join).collect();
        first_failure(results).map(|()| collector.distances())
    })
}

/// Flushes a file that is being written.
fn flush(scheduler: &Scheduler<'_, '_>, output: usize) -> Result<()> {
    scheduler.sink(output).map_or(Ok(()), |sink| sink.flush())
}

/// Completes a file: writes deferred headers and commits it.
fn finish(
    outputs: &[Output<'_>],
    scheduler: &Scheduler<'_, '_>,
    Complete { output, checksums }: Complete,
) -> Result<()> {
    let Some(sink) = scheduler.sink(output) else { return Ok(()) };
    if let Some(deferred) = &outputs[output].plan.deferred {
        for (offset, piece) in deferred.pieces(&checksums)? {
            sink.put(offset, &piece)?;
        }
    }
    sink.complete()?;
    scheduler.close(output);
    Ok(())
}

/// Stops the scheduler on a panic, because other workers may wait for bytes that never come.
struct StopOnPanic<'r, 'a>(&'r Scheduler<'r, 'a>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// The first error that is not a consequence of another.
fn first_failure(results: Vec<Result<()>>) -> Result<()> {
    let (stopped, failed): (Vec<_>, Vec<_>) =
        results.into_iter().filter_map(Result::err).partition(|error| matches!(error, AnamnesisError::Cancelled));
    failed.into_iter().chain(stopped).next().map_or(Ok(()), Err)
}

/// A worker with its buffers.
struct Worker<'r, 'a> {
    outputs: &'r [Output<'a>],
    sources: &'r [Box<dyn Source>],
    scheduler: &'r Scheduler<'r, 'a>,
    cancel: &'r CancelToken,
    sender: mpsc::Sender<WorkerEvent>,
    buffers: Buffers,
    encoding: Encoding,
    /// The file of the last tile.
    last: Option<usize>,
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Result<()> {
        while self.step()? {}
        Ok(())
    }

    /// Fills the next tile; `false` if none is left.
    fn step(&mut self) -> Result<bool> {
        // The receiver outlives the workers.
        let began = |output| drop(self.sender.send(WorkerEvent { output, kind: EventKind::Begun }));
        let Some(assignment) = self.scheduler.next(self.last, &began)? else { return Ok(false) };
        let Assignment { output, sink, tile } = assignment;
        let outputs = self.outputs;
        let job = &outputs[output].plan.jobs[tile.job];
        self.fill(output, job, &tile, &*sink).map_err(|error| error.in_tensor(job.name()))?;
        self.last = Some(output);
        Ok(true)
    }

    fn fill(&mut self, file: usize, job: &Job, tile: &Tile, sink: &dyn TileSink) -> Result<()> {
        let Self { outputs, sources, cancel, sender, buffers, encoding, .. } = self;
        let needs_checksums = outputs[file].plan.deferred.is_some();
        let byte_order = outputs[file].plan.byte_order.as_deref();
        let send = |kind| drop(sender.send(WorkerEvent { output: file, kind }));
        let mut put = |output: usize, start: u64, content: &[u8]| {
            let checksum = if needs_checksums { crc32fast::hash(content) } else { 0 };
            let offset = job.outputs[output].offset + start;
            match byte_order {
                None => sink.put(offset, content)?,
                Some(order) => order.store(offset, content, &mut |offset, bytes| sink.put(offset, bytes))?,
            }
            let piece = Piece { start, bytes: content.len() as u64, checksum };
            send(EventKind::Piece { job: tile.job, tensor: output, piece });
            Ok(())
        };
        match &job.work {
            Work::Copy { extent, .. } => {
                for range in tile.steps() {
                    cancel.check()?;
                    if !needs_checksums
                        && byte_order.is_none()
                        && copy_in_kernel(extent, sources, &range, job.outputs[0].offset, sink)?
                    {
                        let piece = Piece { start: range.start, bytes: range.end - range.start, checksum: 0 };
                        send(EventKind::Piece { job: tile.job, tensor: 0, piece });
                    } else {
                        put(0, range.start, buffers.copy(extent, sources, range)?)?;
                    }
                }
            }
            Work::Decode(values) => {
                let each = values.each();
                let mut distance = Distance::default();
                for range in tile.steps() {
                    cancel.check()?;
                    let (bytes, overflowed) = buffers.decode_counting(values, sources, range.clone())?;
                    distance.overflowed += overflowed;
                    put(0, range.start * each, bytes)?;
                }
                if distance.overflowed > 0 {
                    send(EventKind::Measured { job: tile.job, tile: tile.range.clone(), distance });
                }
            }
            Work::Encode { values, encoder, checks, shared, .. } => {
                let mut largest_of = |values: &Values| {
                    let tile = Tile::whole(values, sources);
                    let mut read = |range, floats: &mut [f32]| {
                        cancel.check()?;
                        buffers.numbers(values, sources, range, floats)
                    };
                    encoding.largest(&**encoder, *checks, &tile, &mut read)
                };
                let largest = shared.as_ref().map(|shared| shared.largest(&mut largest_of)).transpose()?;
                let mut read = |range, floats: &mut [f32]| {
                    cancel.check()?;
                    buffers.numbers(values, sources, range, floats)
                };
                let distance = encoding.run(&**encoder, *checks, tile, largest, &mut read, &mut put)?;
                if checks.measure || distance.replaced > 0 || distance.overflowed > 0 {
                    send(EventKind::Measured { job: tile.job, tile: tile.range.clone(), distance });
                }
            }
        }
        Ok(())
    }
}

/// Copies a range of a tensor from file to file inside the kernel; `false` if that is not possible.
fn copy_in_kernel(
    extent: &Extent,
    sources: &[Box<dyn Source>],
    range: &Range<u64>,
    offset: u64,
    sink: &dyn TileSink,
) -> Result<bool> {
    let place = extent.offset + range.start..extent.offset + range.end;
    let found = sources.get(extent.file as usize).and_then(|source| source.file(place));
    found.map_or(Ok(false), |(file, from)| sink.copy(offset + range.start, &file, from, range.end - range.start))
}
