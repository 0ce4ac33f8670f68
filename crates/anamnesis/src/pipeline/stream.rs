//! Sinks for outputs that can only be written sequentially.
//!
//! The sink knows the extents of all pieces and tensors of the plan, and so the next byte and the padding between
//! extents. Workers wait for their turn. Tiles are assigned in byte order and each is written sequentially, so that
//! the worker with the first unfinished tile never waits. Plans for which that does not hold (jobs with several
//! outputs, deferred headers, pieces after the tensors) use a temporary file.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::plan::{Job, Plan, Work};
use super::sink::TileSink;
use crate::cancel::CancelToken;
use crate::error::{AnamnesisError, Result};
use crate::io::{scratch_file, write_all_at};
use crate::scheme::TileEncoder;

/// How often a waiting worker polls for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// A writer that is filled sequentially.
pub(crate) struct StreamSink<'a, W> {
    state: Mutex<State<'a, W>>,
    advanced: Condvar,
    cancel: CancelToken,
}

struct State<'a, W> {
    writer: &'a mut W,
    /// The offset of the next byte.
    next: u64,
    /// Unwritten parts of pieces and tensors, as start and end, in reverse order. None is empty.
    extents: Vec<(u64, u64)>,
    total: u64,
    is_stopped: bool,
}

impl<'a, W: Write + Send> StreamSink<'a, W> {
    /// A sink for this plan; `None` if the plan cannot be written sequentially.
    pub(crate) fn new(plan: &Plan, writer: &'a mut W, cancel: &CancelToken) -> Option<Self> {
        if plan.deferred.is_some() || plan.byte_order.is_some() || !plan.jobs.iter().all(is_written_in_order) {
            return None;
        }
        let extent = |start: u64, bytes: u64| Some((start, start.checked_add(bytes)?));
        let is_filled = |extent: &Option<(u64, u64)>| extent.is_none_or(|(start, end)| start < end);
        let tensors = plan.tensors().map(|(_, placed)| extent(placed.offset, placed.output.bytes)).filter(is_filled);
        let tensors = tensors.collect::<Option<Vec<_>>>()?;
        let pieces = plan.pieces.iter().map(|(offset, piece)| extent(*offset, piece.len() as u64)).filter(is_filled);
        // Pieces are written first, then tensors in plan order.
        let mut extents = pieces.collect::<Option<Vec<_>>>()?;
        extents.extend(tensors);
        let ends = extents.last().map_or(0, |(_, end)| *end);
        if extents.windows(2).any(|pair| pair[0].1 > pair[1].0) || ends > plan.total_bytes {
            return None;
        }
        extents.reverse();
        let state = State { writer, next: 0, extents, total: plan.total_bytes, is_stopped: false };
        Some(Self { state: Mutex::new(state), advanced: Condvar::new(), cancel: cancel.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State<'a, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the bytes of a job are written sequentially.
fn is_written_in_order(job: &Job) -> bool {
    job.outputs.len() == 1
        && match &job.work {
            Work::Copy { .. } | Work::Decode(_) => true,
            Work::Encode { values, encoder, .. } => encodes_in_order(&**encoder, values.elements),
        }
}

/// Whether the granules of an encoder are consecutive in a single output.
fn encodes_in_order(encoder: &dyn TileEncoder, elements: u64) -> bool {
    let granule = encoder.granule().max(1);
    let place = |granules: std::ops::Range<u64>| {
        let range = granules.start.saturating_mul(granule)..granules.end.saturating_mul(granule).min(elements);
        let mut places = Vec::new();
        encoder.places(&range, &mut places);
        match places[..] {
            [place] if place.part == 0 && place.rows == 1 => Some((place.offset, place.row_bytes)),
            _ => None,
        }
    };
    let is_whole = |granules: u64| granules.checked_mul(granule).is_some_and(|values| values <= elements);
    match (place(0..1), is_whole(2)) {
        (Some((0, _)), false) => true,
        (Some((0, bytes)), true) => place(1..2) == Some((bytes, bytes)) && place(0..2) == Some((0, 2 * bytes)),
        _ => false,
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

    /// Writes bytes at the start of the first unfinished extent.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        match self.extents.last_mut() {
            Some((start, last)) if *start == offset && end <= *last => *start = end,
            _ => return Err(AnamnesisError::parse(format!("bytes {offset}..{end} of the output are not planned"))),
        }
        if self.extents.last().is_some_and(|(start, last)| start == last) {
            self.extents.pop();
        }
        self.pad_to(offset)?;
        self.writer.write_all(bytes)?;
        self.next = end;
        Ok(())
    }

    /// Whether bytes at this offset have to wait for others.
    fn must_wait(&self, offset: u64) -> bool {
        self.extents.last().is_some_and(|(start, _)| *start < offset)
    }
}

impl<W: Write + Send> TileSink for StreamSink<'_, W> {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return Err(AnamnesisError::Cancelled);
            }
            self.cancel.check()?;
            if !state.must_wait(offset) {
                break;
            }
            state = self.advanced.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        let written = state.write(offset, bytes);
        // After a failed write, waiting workers must not wait any longer.
        state.is_stopped |= written.is_err();
        self.advanced.notify_all();
        written
    }

    fn stop(&self) {
        self.lock().is_stopped = true;
        self.advanced.notify_all();
    }

    /// Writes the padding after the last tensor.
    fn complete(&self) -> Result<()> {
        let mut state = self.lock();
        if let Some((start, end)) = state.extents.last() {
            return Err(AnamnesisError::parse(format!("bytes {start}..{end} of the output were never written")));
        }
        let total = state.total;
        state.pad_to(total)?;
        Ok(state.writer.flush()?)
    }
}

/// An unnamed temporary file.
pub(crate) struct SpoolSink(std::fs::File);

impl SpoolSink {
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let file = scratch_file()?;
        file.set_len(bytes)?;
        Ok(Self(file))
    }

    /// Copies the file into a writer.
    pub(crate) fn copy_to(mut self, writer: &mut impl Write) -> Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => return Ok(writer.flush()?),
                Ok(count) => writer.write_all(&buffer[..count])?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl TileSink for SpoolSink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(write_all_at(&self.0, bytes, offset)?)
    }
}
