//! Positioned reads from a remote file.
//!
//! Announced bytes come from [`Windows`]. Others, such as headers, are read when they are needed: a single read becomes
//! one request for its bytes; reads that follow one another become one answer that stays open and is read step by step,
//! so that a header of unknown length takes two requests: the first one of every file, and an open answer. The last of
//! these bytes stay in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anamnesis::PositionedRead;

use crate::error::RemoteError;
use crate::file::{RemoteFile, Stream};
use crate::windows::{Found, Windows};

/// Least bytes of a request.
const LEAST_BYTES: u64 = 16 << 10;
/// Bytes that are read at once from an answer that stays open.
const STEP_BYTES: u64 = 128 << 10;
/// The range of an answer that stays open.
const STREAM_BYTES: u64 = 64 << 20;
/// A forward jump inside of an open answer reads the bytes in between instead of asking again.
const MAX_SKIP_BYTES: u64 = 256 << 10;
/// Most bytes per file that stay in memory without having been announced.
const MOST_KEPT_BYTES: u64 = 16 << 20;
/// After so many reads that follow one another, more are expected. A header whose length is known takes two.
const STEPS: u32 = 3;
/// A longer read is not kept.
const LONG_BYTES: u64 = 4 << 20;

/// A remote file for the library.
pub(crate) struct RemoteReader {
    file: Arc<RemoteFile>,
    windows: Arc<Windows>,
    number: u64,
    /// The end of the last read, and the number of reads up to there that followed one another.
    steps: (AtomicU64, AtomicU32),
    kept: Mutex<Kept>,
}

/// Bytes that were not announced.
#[derive(Default)]
struct Kept {
    /// By first byte, with the time of the last use.
    pieces: BTreeMap<u64, (Arc<Vec<u8>>, u64)>,
    bytes: u64,
    time: u64,
    /// The end of the last read.
    end: u64,
    /// An answer that stays open, and the offset of its next byte.
    stream: Option<(Stream, u64)>,
}

impl RemoteReader {
    pub(crate) fn new(file: Arc<RemoteFile>, windows: &Arc<Windows>) -> Self {
        let number = windows.add(Arc::clone(&file));
        Self { file, windows: Arc::clone(windows), number, steps: Default::default(), kept: Mutex::default() }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), RemoteError> {
        let (last, steps) = &self.steps;
        let is_next = last.swap(offset + buffer.len() as u64, Ordering::Relaxed) == offset;
        steps.store(if is_next { steps.load(Ordering::Relaxed).saturating_add(1) } else { 1 }, Ordering::Relaxed);
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let count = self.read_some(at, rest)?;
            at += count as u64;
            rest = rest.get_mut(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads at least one byte.
    fn read_some(&self, at: u64, buffer: &mut [u8]) -> Result<usize, RemoteError> {
        let head = usize::try_from(at).ok().and_then(|at| self.file.head().get(at..)).unwrap_or_default();
        if !head.is_empty() {
            return Ok(copied(head, buffer));
        }
        match self.windows.read(self.number, at, buffer)? {
            Found::Bytes(count) => Ok(count),
            Found::Nothing { next } => {
                let wanted = buffer.len().min(usize::try_from(next - at).unwrap_or(usize::MAX));
                let limit = next.min(self.file.bytes());
                let is_walk = self.steps.1.load(Ordering::Relaxed) >= STEPS;
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.read(&self.file, at..limit, is_walk, buffer.get_mut(..wanted).unwrap_or_default())
            }
        }
    }
}

impl Kept {
    /// Reads at least one byte from the start of `range` on; requests end where it ends.
    fn read(
        &mut self,
        file: &RemoteFile,
        range: Range<u64>,
        is_walk: bool,
        buffer: &mut [u8],
    ) -> Result<usize, RemoteError> {
        let Range { start: at, end: limit } = range;
        self.time += 1;
        let time = self.time;
        if let Some((start, (piece, used))) = self.pieces.range_mut(..=at).next_back() {
            let found = usize::try_from(at - start).ok().and_then(|from| piece.get(from..)).unwrap_or_default();
            if !found.is_empty() {
                *used = time;
                let count = copied(found, buffer);
                self.end = at + count as u64;
                return Ok(count);
            }
        }
        let wanted = buffer.len() as u64;
        if wanted >= LONG_BYTES {
            let mut filled = 0;
            file.fetch(at, at + wanted, &mut |bytes| {
                if let Some(to) = buffer.get_mut(filled..filled + bytes.len()) {
                    to.copy_from_slice(bytes);
                }
                filled += bytes.len();
            })?;
            return Ok(buffer.len());
        }
        // The bytes before the next piece that is in memory.
        let limit = self.pieces.range(at..).next().map_or(limit, |(next, _)| limit.min(*next));
        let is_next = |place: u64| place <= at && at - place <= MAX_SKIP_BYTES;
        if self.stream.as_ref().is_some_and(|(_, place)| !is_next(*place)) {
            self.stream = None;
        }
        let is_sequential = is_walk || (at > 0 && at == self.end);
        let piece = match self.stream.take() {
            None if !is_sequential => self.single(file, at, at.saturating_add(wanted.max(LEAST_BYTES)).min(limit))?,
            stream => self.streamed(file, stream, at, wanted.max(STEP_BYTES).min(limit - at))?,
        };
        let count = copied(&piece, buffer);
        self.end = at + count as u64;
        self.keep(at, piece);
        Ok(count)
    }

    /// The bytes of one request.
    fn single(&mut self, file: &RemoteFile, start: u64, end: u64) -> Result<Vec<u8>, RemoteError> {
        let mut piece = Vec::with_capacity((end - start) as usize);
        file.fetch(start, end, &mut |bytes| piece.extend_from_slice(bytes))?;
        Ok(piece)
    }

    /// Bytes of an answer that stays open. If it fails, they are asked for again.
    fn streamed(
        &mut self,
        file: &RemoteFile,
        stream: Option<(Stream, u64)>,
        at: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, RemoteError> {
        let end = at.saturating_add(STREAM_BYTES).min(file.bytes());
        let opened = match stream {
            Some(stream) => Some(stream),
            None => file.stream(at, end).ok().map(|stream| (stream, at)),
        };
        if let Some((mut stream, place)) = opened {
            let skipped = (at - place) as usize;
            let mut piece = vec![0; skipped + bytes as usize];
            let mut filled = 0;
            while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match stream.read(rest) {
                    Ok(count) => filled += count,
                    Err(_) => break,
                }
            }
            if filled == piece.len() {
                if stream.left() > 0 {
                    self.stream = Some((stream, at + bytes));
                }
                piece.drain(..skipped);
                return Ok(piece);
            }
        }
        self.single(file, at, at + bytes)
    }

    /// Keeps a piece, and drops the pieces that were not used for the longest time.
    fn keep(&mut self, at: u64, piece: Vec<u8>) {
        self.bytes += piece.len() as u64;
        let before = self.pieces.insert(at, (Arc::new(piece), self.time));
        self.bytes -= before.map_or(0, |(piece, _)| piece.len() as u64);
        while self.bytes > MOST_KEPT_BYTES {
            let Some(oldest) = self.pieces.iter().min_by_key(|(_, (_, used))| *used).map(|(start, _)| *start) else {
                return;
            };
            let dropped = self.pieces.remove(&oldest).map_or(0, |(piece, _)| piece.len() as u64);
            self.bytes -= dropped;
        }
    }
}

/// Copies as many bytes as fit.
fn copied(from: &[u8], to: &mut [u8]) -> usize {
    let count = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..count), to.get_mut(..count)) {
        to.copy_from_slice(from);
    }
    count
}

impl PositionedRead for RemoteReader {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.bytes())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.file.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.read(offset, buffer)?)
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        let from = self.file.head().len() as u64;
        let cut = |range: &Range<u64>| range.start.max(from)..range.end.min(self.file.bytes());
        let ranges: Vec<_> = ranges.iter().map(cut).filter(|range| range.start < range.end).collect();
        self.windows.announce(self.number, &ranges);
    }

    fn read_rows(&self, buffer: &mut [u8], offset: u64, row_bytes: usize, stride: u64) -> io::Result<()> {
        let rows = buffer.len().checked_div(row_bytes).unwrap_or(0) as u64;
        let whole = stride.saturating_mul(rows.saturating_sub(1)).saturating_add(row_bytes as u64);
        // Rows whose gaps are small are read with their gaps.
        if rows > 1 && whole <= LONG_BYTES && whole <= (buffer.len() as u64).saturating_mul(4) {
            let mut bytes = vec![0; whole as usize];
            self.read_exact_at(&mut bytes, offset)?;
            for (index, row) in buffer.chunks_mut(row_bytes.max(1)).enumerate() {
                let at = index * stride as usize;
                if let Some(found) = bytes.get(at..at + row.len()) {
                    row.copy_from_slice(found);
                }
            }
            return Ok(());
        }
        let offsets = (0..).map(|row| offset.saturating_add(stride.saturating_mul(row)));
        buffer.chunks_mut(row_bytes.max(1)).zip(offsets).try_for_each(|(row, offset)| self.read_exact_at(row, offset))
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        self.windows.remove(self.number);
    }
}
