//! Running a plan: workers take tiles, read their windows, decode or encode, and put the result at its place.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{Scope, ScopedJoinHandle};

use super::buffers::Buffers;
use super::encode::Encoding;
use super::measure::Distance;
use super::options::RunOptions;
use super::plan::{Job, Plan, Work};
use super::report::{Done, Outcome, Piece, Progress, collect};
use super::sink::TileSink;
use super::tiles::{Tile, Tiles};
use crate::cancel::CancelToken;
use crate::catalog::Extent;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// Fills the sink as planned. `watch` is called on the calling thread, after every tile. Gives how far every encoded job
/// ended up from its values, in the order of the plan.
pub(crate) fn run(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    sink: &dyn TileSink,
    options: &RunOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Distance>> {
    options.cancel.check()?;
    for (offset, piece) in &plan.pieces {
        sink.put(*offset, piece)?;
    }
    let tiles = Mutex::new(Tiles::new(plan, sources));
    let stop = AtomicBool::new(false);
    let next_tile = || {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        tiles.lock().unwrap_or_else(PoisonError::into_inner).next()
    };
    let halt = || {
        stop.store(true, Ordering::Relaxed);
        sink.stop();
    };
    let (sender, receiver) = mpsc::channel();
    let Outcome { checksums, distances } = std::thread::scope(|scope| {
        let start = |_| {
            let (next_tile, halt) = (&next_tile, &halt);
            let mut worker = Worker {
                plan,
                sources,
                sink,
                cancel: &options.cancel,
                sender: sender.clone(),
                buffers: Buffers::new(options.cpu),
                encoding: Encoding::new(options.cpu),
            };
            spawn(scope, move || worker.work(next_tile).inspect_err(|_| halt()))
        };
        let workers = (0..options.threads.max(1)).map(start).collect::<Result<Vec<_>>>().inspect_err(|_| halt());
        drop(sender);
        let (written, flushes) = mpsc::sync_channel(1);
        let flusher = spawn(scope, move || flushes.iter().try_for_each(|()| sink.flush()));
        let told = collect(plan, &receiver, watch, options.on_tensor.as_ref(), &written);
        drop(written);
        let results = workers?.into_iter().chain([flusher?]).map(join).collect();
        first_failure(results).map(|()| told)
    })?;
    if let Some(seal) = &plan.seal {
        for (offset, piece) in seal.seal(&checksums)? {
            sink.put(offset, &piece)?;
        }
    }
    Ok(distances)
}

/// Starts a thread that ends with the scope.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().spawn_scoped(scope, work).map_err(|error| {
        let text = format!("a thread cannot be started: {error}");
        AnamnesisError::Io(std::io::Error::new(error.kind(), text))
    })
}

/// Waits for a thread.
pub(super) fn join(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")))
}

/// The failure that made the others stop, where there is one.
fn first_failure(results: Vec<Result<()>>) -> Result<()> {
    let (stopped, failed): (Vec<_>, Vec<_>) =
        results.into_iter().filter_map(Result::err).partition(|error| matches!(error, AnamnesisError::Cancelled));
    failed.into_iter().chain(stopped).next().map_or(Ok(()), Err)
}

/// One worker: its buffers live from tile to tile.
struct Worker<'a> {
    plan: &'a Plan,
    sources: &'a [Box<dyn Source>],
    sink: &'a dyn TileSink,
    cancel: &'a CancelToken,
    sender: mpsc::Sender<Done>,
    buffers: Buffers,
    encoding: Encoding,
}

impl Worker<'_> {
    fn work(&mut self, next_tile: &dyn Fn() -> Option<Tile>) -> Result<()> {
        while let Some(tile) = next_tile() {
            let plan = self.plan;
            let job = &plan.jobs[tile.job];
            self.fill(job, &tile).map_err(|error| error.in_tensor(job.name()))?;
        }
        Ok(())
    }

    fn fill(&mut self, job: &Job, tile: &Tile) -> Result<()> {
        let Self { plan, sources, sink, cancel, sender, buffers, encoding } = self;
        let has_seal = plan.seal.is_some();
        let mut put = |output: usize, start: u64, content: &[u8]| {
            let checksum = if has_seal { crc32fast::hash(content) } else { 0 };
            sink.put(job.outputs[output].offset + start, content)?;
            let piece = Piece { start, bytes: content.len() as u64, checksum };
            // The receiver outlives the workers; if it did not, nobody would be waiting for progress.
            let _ = sender.send(Done::Piece { job: tile.job, output, piece });
            Ok(())
        };
        match &job.work {
            Work::Copy { extent, .. } => {
                for range in tile.steps() {
                    cancel.check()?;
                    if !has_seal && copy_unseen(extent, sources, &range, job.outputs[0].offset, *sink)? {
                        let piece = Piece { start: range.start, bytes: range.end - range.start, checksum: 0 };
                        let _ = sender.send(Done::Piece { job: tile.job, output: 0, piece });
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
                    let _ = sender.send(Done::Measured { job: tile.job, tile: tile.range.clone(), distance });
                }
            }
            Work::Encode { values, encoder, checks } => {
                let mut read = |range, floats: &mut Vec<f32>| {
                    cancel.check()?;
                    buffers.append(values, sources, range, floats)
                };
                let distance = encoding.run(&**encoder, *checks, tile, &mut read, &mut put)?;
                if checks.measure || distance.replaced > 0 {
                    let _ = sender.send(Done::Measured { job: tile.job, tile: tile.range.clone(), distance });
                }
            }
        }
        Ok(())
    }
}

/// Lets the system copy a range of a tensor from file to file. Says no where it cannot.
fn copy_unseen(
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
