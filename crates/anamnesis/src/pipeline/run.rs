//! Running a plan: workers take tiles, read their windows, decode or encode them, and write the result.

use std::ops::Range;
use std::sync::mpsc;

use super::announced::announce;
use super::buffers::Buffers;
use super::encode::Encoding;
use super::measure::Distance;
use super::options::RememberOptions;
use super::plan::{Job, Plan, Work};
use super::report::{Complete, EventKind, Piece, Progress, WorkerEvent, collect};
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
    std::thread::scope(|scope| {
        let start = |_| {
            let mut worker = Worker {
                outputs,
                sources,
                scheduler,
                cancel,
                sender: sender.clone(),
                buffers: Buffers::new(cpu),
                encoding: Encoding::new(cpu),
            };
            spawn(scope, move || {
                let _stop = StopOnPanic(scheduler);
                worker.work().inspect_err(|_| scheduler.stop())
            })
        };
        let workers = (0..threads.max(1)).map(start).collect::<Result<Vec<_>>>().inspect_err(|_| scheduler.stop());
        drop(sender);
        let (written, flushes) = mpsc::sync_channel::<usize>(1);
        let flush = move |output| scheduler.sink(output).map_or(Ok(()), |sink| sink.flush());
        let flusher = spawn(scope, move || flushes.iter().try_for_each(flush).inspect_err(|_| scheduler.stop()));
        let (filled, finishes) = mpsc::channel();
        let finish = move |complete: Complete| finish(outputs, scheduler, complete);
        let finisher = spawn(scope, move || finishes.iter().try_for_each(finish).inspect_err(|_| scheduler.stop()));
        let plans: Vec<_> = outputs.iter().map(|output| output.plan).collect();
        let distances = collect(&plans, &receiver, watch, options.on_tensor.as_ref(), &written, &filled);
        drop((written, filled));
        let results = workers?.into_iter().chain([flusher?, finisher?]).map(join).collect();
        first_failure(results).map(|()| distances)
    })
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
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Result<()> {
        let mut last = None;
        loop {
            // The receiver outlives the workers.
            let began = |output| drop(self.sender.send(WorkerEvent { output, kind: EventKind::Begun }));
            let Some(Assignment { output, sink, tile }) = self.scheduler.next(last, &began)? else { return Ok(()) };
            let outputs = self.outputs;
            let job = &outputs[output].plan.jobs[tile.job];
            self.fill(output, job, &tile, &*sink).map_err(|error| error.in_tensor(job.name()))?;
            last = Some(output);
        }
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
