//! An output that can only be written from front to back.
//!
//! Workers wait for their turn: tiles are handed out in the order of their bytes, so that the one whose turn it is never
//! waits. A plan whose tensors come about together, or whose front depends on what is behind it, goes through a temporary
//! file instead.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use super::sink::TileSink;
use crate::error::{AnamnesisError, Result};
use crate::io::write_all_at;

/// A writer, filled from front to back.
pub(crate) struct StreamSink<'a, W> {
    state: Mutex<State<'a, W>>,
    moved: Condvar,
}

struct State<'a, W> {
    writer: &'a mut W,
    /// The place of the next byte.
    next: u64,
    /// Where pieces and tensors begin, the last first; between them there is nothing but zeros.
    starts: Vec<u64>,
    total: u64,
    is_stopped: bool,
}

impl<'a, W: Write + Send> StreamSink<'a, W> {
    /// A sink for this plan; `None` where the plan is not written from front to back.
    pub(crate) fn new(plan: &Plan, writer: &'a mut W) -> Option<Self> {
        if plan.seal.is_some() || plan.jobs.iter().any(|job| job.outputs.len() != 1) {
            return None;
        }
        let tensors = plan.tensors().map(|(_, placed)| (placed.offset, placed.output.bytes));
        let pieces = plan.pieces.iter().map(|(offset, piece)| (*offset, piece.len() as u64));
        let mut starts: Vec<u64> = tensors.chain(pieces).filter(|(_, bytes)| *bytes > 0).map(|(at, _)| at).collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let state = State { writer, next: 0, starts, total: plan.total_bytes, is_stopped: false };
        Some(Self { state: Mutex::new(state), moved: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State<'a, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> State<'_, W> {
    fn pad_to(&mut self, offset: u64) -> std::io::Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while self.next < offset {
            let count = (offset - self.next).min(ZEROS.len() as u64);
            self.writer.write_all(&ZEROS[..count as usize])?;
            self.next += count;
        }
        Ok(())
    }

    /// Whether these bytes are the next, with or without zeros in front of them.
    fn is_turn_of(&self, offset: u64) -> bool {
        self.next == offset || (self.starts.last() == Some(&offset) && self.next < offset)
    }
}

impl<W: Write + Send> TileSink for StreamSink<'_, W> {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.lock();
        while !state.is_turn_of(offset) {
            if state.is_stopped {
                return Err(AnamnesisError::Cancelled);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pad_to(offset)?;
        state.writer.write_all(bytes)?;
        state.next += bytes.len() as u64;
        let next = state.next;
        while state.starts.last().is_some_and(|start| *start < next) {
            state.starts.pop();
        }
        self.moved.notify_all();
        Ok(())
    }

    fn stop(&self) {
        self.lock().is_stopped = true;
        self.moved.notify_all();
    }

    /// Writes what is behind the last tensor.
    fn complete(&self) -> Result<()> {
        let mut state = self.lock();
        let total = state.total;
        state.pad_to(total)?;
        Ok(state.writer.flush()?)
    }
}

/// A file without a name, which goes when it is dropped.
pub(crate) struct SpoolSink(std::fs::File);

impl SpoolSink {
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let file = tempfile::tempfile()?;
        file.set_len(bytes)?;
        Ok(Self(file))
    }

    /// Copies everything into a writer.
    pub(crate) fn copy_to(mut self, writer: &mut impl Write) -> Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match self.0.read(&mut buffer)? {
                0 => return Ok(writer.flush()?),
                count => writer.write_all(&buffer[..count])?,
            }
        }
    }
}

impl TileSink for SpoolSink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(write_all_at(&self.0, bytes, offset)?)
    }
}
