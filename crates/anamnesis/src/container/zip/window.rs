//! Reading headers that stand close together with few reads.

use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

/// A part of a source through which headers are looked at.
pub(super) struct Window<'a, S: ?Sized> {
    source: &'a S,
    /// No byte from here on is looked at.
    end: u64,
    /// Bytes read at a time, at least.
    ahead: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, S: ReadAt + ?Sized> Window<'a, S> {
    pub(super) fn new(source: &'a S, end: u64, ahead: u64) -> Self {
        Self { source, end, ahead, start: 0, bytes: Vec::new() }
    }

    /// The bytes at `offset`; `what` names them where they reach past the end.
    pub(super) fn bytes(&mut self, offset: u64, bytes: u64, what: &dyn Fn() -> String) -> Result<&[u8]> {
        let inside = offset.checked_add(bytes).filter(|&end| end <= self.end);
        let end = inside.ok_or_else(|| {
            let reason = format!("{} takes {bytes} bytes at {offset}, past byte {}", what(), self.end);
            AnamnesisError::parse(reason)
        })?;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // What is asked for at once is a header with a name and extra fields, each shorter than 64 KiB.
            self.bytes.resize(bytes.max(self.ahead).min(self.end - offset) as usize, 0);
            self.start = offset;
            self.source.fill_at(offset, &mut self.bytes)?;
        }
        let at = (offset - self.start) as usize;
        let range: Range<usize> = at..at + bytes as usize;
        Ok(&self.bytes[range])
    }
}
