//! Buffered reading of headers that are close to one another.

use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

/// A read-ahead window over a source.
pub(super) struct Window<'a, S: ?Sized> {
    source: &'a S,
    /// End of the readable range.
    end: u64,
    /// Minimum bytes per read.
    ahead: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, S: ReadAt + ?Sized> Window<'a, S> {
    pub(super) fn new(source: &'a S, end: u64, ahead: u64) -> Self {
        Self { source, end, ahead, start: 0, bytes: Vec::new() }
    }

    /// The bytes at `offset`; `what` names them in an error.
    pub(super) fn bytes(&mut self, offset: u64, bytes: u64, what: &dyn Fn() -> String) -> Result<&[u8]> {
        let inside = offset.checked_add(bytes).filter(|&end| end <= self.end);
        let end = inside.ok_or_else(|| {
            let reason = format!("{} takes {bytes} bytes at {offset}, past byte {}", what(), self.end);
            AnamnesisError::parse(reason)
        })?;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // A request is a header with its name and extra fields, each shorter than 64 KiB.
            self.bytes.resize(bytes.max(self.ahead).min(self.end - offset) as usize, 0);
            self.start = offset;
            self.source.fill_at(offset, &mut self.bytes)?;
        }
        let at = (offset - self.start) as usize;
        let range: Range<usize> = at..at + bytes as usize;
        Ok(&self.bytes[range])
    }
}
