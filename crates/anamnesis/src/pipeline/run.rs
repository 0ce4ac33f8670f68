//! Running a plan: workers take tiles, read their windows, decode, and put the result at its place.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use super::plan::{Plan, PlannedTensor, Work};
use super::sink::TileSink;
use super::tiles::{Tile, Tiles};
use crate::cancel::CancelToken;
use crate::catalog::{Extent, TargetDtype};
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
    piece: Piece,
}

/// A finished piece of an output tensor.
struct Piece {
    /// Where it starts in the tensor.
    start: u64,
    bytes: u64,
    /// Its CRC-32, where the file carries checksums.
    checksum: u32,
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
    let (sender, receiver) = mpsc::channel();
    let checksums = std::thread::scope(|scope| {
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
        let checksums = report(plan, &receiver, watch, &written);
        drop(written);
        let mut outcome = Ok(());
        for worker in workers {
            let result = worker.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")));
            outcome = outcome.and(result);
        }
        let flushed = flusher.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")));
        outcome.and(flushed).map(|()| checksums)
    })?;
    let Some(seal) = &plan.seal else { return Ok(()) };
    for (offset, piece) in seal.seal(&checksums)? {
        sink.put(offset, &piece)?;
    }
    Ok(())
}

/// Adds up what the workers tell until the last of them is done. Gives the checksums of the tensors, in the order of the
/// container, where the file carries them.
fn report(
    plan: &Plan,
    receiver: &mpsc::Receiver<Done>,
    watch: &mut dyn FnMut(&Progress),
    written: &mpsc::SyncSender<()>,
) -> Vec<u32> {
    let mut checksums = Checksums::new(plan);
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
    for Done { tensor, piece } in receiver {
        let bytes = piece.bytes;
        checksums.add(plan.tensors[tensor].index, piece);
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
    checksums.finish()
}

/// The checksums of output tensors, put together from those of their pieces.
struct Checksums(Option<Vec<Vec<Piece>>>);

impl Checksums {
    fn new(plan: &Plan) -> Self {
        Self(plan.seal.as_ref().map(|_| plan.tensors.iter().map(|_| Vec::new()).collect()))
    }

    fn add(&mut self, tensor: usize, piece: Piece) {
        if let Some(tensors) = &mut self.0 {
            tensors[tensor].push(piece);
        }
    }

    fn finish(self) -> Vec<u32> {
        let whole = |mut pieces: Vec<Piece>| {
            pieces.sort_by_key(|piece| piece.start);
            let mut all = crc32fast::Hasher::new();
            for piece in pieces {
                all.combine(&crc32fast::Hasher::new_with_initial_len(piece.checksum, piece.bytes));
            }
            all.finalize()
        };
        self.0.into_iter().flatten().map(whole).collect()
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
        let tensor = &plan.tensors[tile.tensor];
        for range in tile.steps() {
            cancel.check()?;
            let (start, bytes) = byte_range(plan, tensor, &range);
            let content = buffers
                .fill(tensor, sources, plan.target, range, bytes as usize)
                .map_err(|error| in_tensor(error, &tensor.output.name))?;
            let checksum = if plan.seal.is_some() { crc32fast::hash(content) } else { 0 };
            sink.put(tensor.offset + start, content)?;
            // The receiver outlives the workers; if it did not, nobody would be waiting for progress.
            let _ = sender.send(Done { tensor: tile.tensor, piece: Piece { start, bytes, checksum } });
        }
    }
    Ok(())
}

/// Where a piece of a tensor starts in its bytes, and how many it takes.
fn byte_range(plan: &Plan, tensor: &PlannedTensor, range: &Range<u64>) -> (u64, u64) {
    let element_bytes = match &tensor.work {
        Work::Copy(_) => 1,
        Work::Decode { .. } => plan.target.byte_size() as u64,
    };
    (range.start * element_bytes, (range.end - range.start) * element_bytes)
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
    /// The output bytes of a piece of a tensor.
    fn fill<'a>(
        &'a mut self,
        tensor: &PlannedTensor,
        sources: &'a [Box<dyn Source>],
        target: TargetDtype,
        range: Range<u64>,
        bytes: usize,
    ) -> Result<&'a [u8]> {
        let (decoder, parts) = match &tensor.work {
            Work::Copy(extent) => {
                let window = Window::run(0, range.start, bytes as u64);
                return Ok(self.read(sources, std::slice::from_ref(extent), &[window])?[0]);
            }
            Work::Decode { decoder, parts, .. } => (decoder, parts),
        };
        let mut windows = std::mem::take(&mut self.windows);
        windows.clear();
        decoder.windows(range.clone(), &mut windows);
        let mut out = std::mem::take(&mut self.out);
        grow(&mut out, bytes);
        let mut scratch = std::mem::take(&mut self.scratch);
        let inputs = self.read(sources, parts, &windows)?;
        decoder.decode(range, &inputs, target, &mut out[..bytes], &mut scratch)?;
        (self.windows, self.out, self.scratch) = (windows, out, scratch);
        Ok(&self.out[..bytes])
    }

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
