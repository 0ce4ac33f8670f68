//! Running a plan: workers take tiles, read their windows, decode, and put the result at its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use super::plan::{Plan, Work};
use super::sink::TileSink;
use super::tiles::{Tile, Tiles};
use crate::cancel::CancelToken;
use crate::catalog::Extent;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::scheme::{Scratch, Window};

/// How far a running conversion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Output bytes written so far.
    pub bytes: u64,
    /// Output bytes in all.
    pub total_bytes: u64,
    /// Output tensors finished so far.
    pub tensors: usize,
    /// Output tensors in all.
    pub total_tensors: usize,
    /// Finished tensors that were decoded, not copied.
    pub decoded: usize,
}

/// What a run needs to know besides the plan.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub threads: usize,
    pub cancel: CancelToken,
}

/// Output bytes between two flushes.
const FLUSH_BYTES: u64 = 64 << 20;

/// What workers tell the calling thread.
struct Done {
    tensor: usize,
    bytes: u64,
}

/// Fills the sink as planned. `watch` is called on the calling thread, after every tile.
pub(crate) fn run(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    sink: &dyn TileSink,
    options: &RunOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<()> {
    options.cancel.check()?;
    sink.put(0, &plan.header)?;
    let tiles = Mutex::new(Tiles::new(plan));
    let stop = AtomicBool::new(false);
    let next_tile = || {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        tiles.lock().unwrap_or_else(PoisonError::into_inner).next()
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads.max(1))
            .map(|_| {
                let (sender, next_tile, stop) = (sender.clone(), &next_tile, &stop);
                scope.spawn(move || {
                    let result = work(plan, sources, sink, &options.cancel, next_tile, &sender);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        drop(sender);
        let (written, flushes) = mpsc::sync_channel(1);
        let flusher = scope.spawn(move || flushes.iter().try_for_each(|()| sink.flush()));
        report(plan, &receiver, watch, &written);
        drop(written);
        let mut outcome = Ok(());
        for worker in workers {
            let result = worker.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")));
            outcome = outcome.and(result);
        }
        let flushed = flusher.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")));
        outcome.and(flushed)
    })
}

/// Adds up what the workers tell until the last of them is done.
fn report(
    plan: &Plan,
    receiver: &mpsc::Receiver<Done>,
    watch: &mut dyn FnMut(&Progress),
    written: &mpsc::SyncSender<()>,
) {
    let mut flushed = 0;
    let mut left: Vec<u64> = plan.tensors.iter().map(|tensor| tensor.output.bytes).collect();
    let mut progress = Progress {
        total_bytes: left.iter().sum(),
        total_tensors: left.len(),
        // Tensors without elements have no tile to wait for.
        tensors: left.iter().filter(|&&bytes| bytes == 0).count(),
        ..Progress::default()
    };
    let is_decoded = |tensor: usize| matches!(plan.tensors[tensor].work, Work::Decode { .. });
    progress.decoded = (0..left.len()).filter(|&tensor| left[tensor] == 0 && is_decoded(tensor)).count();
    watch(&progress);
    for Done { tensor, bytes } in receiver {
        progress.bytes += bytes;
        if progress.bytes - flushed >= FLUSH_BYTES {
            flushed = progress.bytes;
            // A flusher that is busy will catch up; one that failed has ended, and its error is collected at the end.
            let _ = written.try_send(());
        }
        left[tensor] -= bytes;
        if left[tensor] == 0 {
            progress.tensors += 1;
            progress.decoded += usize::from(is_decoded(tensor));
        }
        watch(&progress);
    }
}

/// One worker: its buffers live from tile to tile.
fn work(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    sink: &dyn TileSink,
    cancel: &CancelToken,
    next_tile: &dyn Fn() -> Option<Tile>,
    sender: &mpsc::Sender<Done>,
) -> Result<()> {
    let mut buffers = Buffers::default();
    while let Some(tile) = next_tile() {
        cancel.check()?;
        let tensor = &plan.tensors[tile.tensor];
        let element_bytes = match &tensor.work {
            Work::Copy(_) => 1,
            Work::Decode { .. } => plan.target.byte_size() as u64,
        };
        let bytes = (tile.range.end - tile.range.start) * element_bytes;
        let offset = tensor.offset + tile.range.start * element_bytes;
        let named = |error| in_tensor(error, &tensor.output.name);
        match &tensor.work {
            Work::Copy(extent) => {
                let window = Window::run(0, tile.range.start, bytes);
                let input = buffers.read(sources, std::slice::from_ref(extent), &[window]).map_err(named)?;
                sink.put(offset, input[0])?;
            }
            Work::Decode { decoder, parts, .. } => {
                let mut windows = std::mem::take(&mut buffers.windows);
                windows.clear();
                decoder.windows(tile.range.clone(), &mut windows);
                let mut out = std::mem::take(&mut buffers.out);
                grow(&mut out, bytes as usize);
                let mut scratch = std::mem::take(&mut buffers.scratch);
                let inputs = buffers.read(sources, parts, &windows).map_err(named)?;
                let out_bytes = &mut out[..bytes as usize];
                decoder.decode(tile.range.clone(), &inputs, plan.target, out_bytes, &mut scratch).map_err(named)?;
                sink.put(offset, out_bytes)?;
                (buffers.windows, buffers.out, buffers.scratch) = (windows, out, scratch);
            }
        }
        // The receiver outlives the workers; if it did not, nobody would be waiting for progress.
        let _ = sender.send(Done { tensor: tile.tensor, bytes });
    }
    Ok(())
}

/// The memory of one worker.
#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    out: Vec<u8>,
    windows: Vec<Window>,
    scratch: Scratch,
}

impl Buffers {
    /// The contents of `windows`: borrowed where they are in memory, otherwise read into the input buffer.
    fn read<'a>(
        &'a mut self,
        sources: &'a [Box<dyn Source>],
        parts: &[Extent],
        windows: &[Window],
    ) -> Result<Vec<&'a [u8]>> {
        let places = windows.iter().map(|window| place(sources, parts, window)).collect::<Result<Vec<_>>>()?;
        let to_read = places.iter().filter(|place| place.borrowed().is_none());
        let to_read = to_read.map(|place| place.window.bytes() as usize).sum();
        grow(&mut self.input, to_read);
        let mut rest = &mut self.input[..to_read];
        let mut contents = Vec::with_capacity(windows.len());
        for place in places {
            contents.push(match place.borrowed() {
                Some(bytes) => bytes,
                None => {
                    let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(place.window.bytes() as usize);
                    rest = behind;
                    place.read(bytes)?;
                    bytes
                }
            });
        }
        Ok(contents)
    }
}

/// A window found in its source.
struct Place<'a> {
    source: &'a dyn Source,
    /// Absolute offset of the first row.
    start: u64,
    window: Window,
}

fn place<'a>(sources: &'a [Box<dyn Source>], parts: &[Extent], window: &Window) -> Result<Place<'a>> {
    let inside = |part: &&Extent| {
        window.span().and_then(|span| window.offset.checked_add(span)).is_some_and(|end| end <= part.bytes)
    };
    let part = parts.get(window.part).filter(inside);
    let found = part.and_then(|part| Some((part.offset + window.offset, sources.get(part.file as usize)?)));
    let (start, source) = found.ok_or_else(|| AnamnesisError::parse("a tile reaches outside its tensor"))?;
    Ok(Place { source: &**source, start, window: *window })
}

impl<'a> Place<'a> {
    /// The bytes, where they are in memory without gaps.
    fn borrowed(&self) -> Option<&'a [u8]> {
        if self.window.rows != 1 { None } else { self.source.resident(self.start..self.start + self.window.row_bytes) }
    }

    /// Reads the rows one behind the other.
    fn read(&self, out: &mut [u8]) -> Result<()> {
        if self.window.row_bytes == 0 {
            return Ok(());
        }
        let mut offset = self.start;
        for row in out.chunks_exact_mut(self.window.row_bytes as usize) {
            self.source.read_at(offset, row)?;
            offset += self.window.stride;
        }
        Ok(())
    }
}

fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

/// Adds the tensor's name to an error that came from its bytes.
fn in_tensor(error: AnamnesisError, name: &str) -> AnamnesisError {
    match error {
        AnamnesisError::Parse { reason } => AnamnesisError::parse(format!("tensor {}: {reason}", quoted(name))),
        AnamnesisError::Io(error) => {
            AnamnesisError::Io(std::io::Error::new(error.kind(), format!("tensor {}: {error}", quoted(name))))
        }
        other => other,
    }
}
