//! Positioned reads, from sources and from readers that are not shared between threads.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::Source;
use super::source::past_end;
use crate::error::Result;

/// Bytes read for format detection. The last magic is that of tar, at byte 257.
const HEAD_BYTES: u64 = 512;

/// Positioned reads: the part of a [`Source`] that front matter needs.
pub(crate) trait ReadAt {
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset`; a short read is an error.
    fn fill_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Announces byte ranges that are read next, in about this order.
    fn announce_reads(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// The bytes of `range`, if they are in memory.
    fn in_memory(&self, range: Range<u64>) -> Option<&[u8]> {
        let _ = range;
        None
    }

    /// The first bytes, for format detection.
    fn head(&self) -> Result<Vec<u8>> {
        let mut head = vec![0; self.bytes().min(HEAD_BYTES) as usize];
        self.fill_at(0, &mut head)?;
        Ok(head)
    }
}

impl<S: Source + ?Sized> ReadAt for S {
    fn bytes(&self) -> u64 {
        self.len()
    }

    fn fill_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_at(offset, buffer)
    }

    fn announce_reads(&self, ranges: &[Range<u64>]) {
        self.announce(ranges);
    }

    fn in_memory(&self, range: Range<u64>) -> Option<&[u8]> {
        self.resident(range)
    }
}

/// A reader that is borrowed for one call and need not be `Send`.
pub(crate) struct LocalReader<R> {
    reader: RefCell<R>,
    bytes: u64,
}

impl<R: Read + Seek> LocalReader<R> {
    pub(crate) fn new(mut reader: R) -> Result<Self> {
        let bytes = reader.seek(SeekFrom::End(0))?;
        Ok(Self { reader: RefCell::new(reader), bytes })
    }
}

impl<R: Read + Seek> ReadAt for LocalReader<R> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn fill_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(past_end(offset, buffer.len(), self.bytes));
        }
        let mut reader = self.reader.borrow_mut();
        reader.seek(SeekFrom::Start(offset))?;
        Ok(reader.read_exact(buffer)?)
    }
}
