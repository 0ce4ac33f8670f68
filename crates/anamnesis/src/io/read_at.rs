//! Positioned reading, of sources and of readers that are not shared between threads.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::Source;
use super::source::past_end;
use crate::error::Result;

/// Bytes by which files are told apart. The latest telling ones are those of a tar file, which says what it is at byte 257.
const HEAD_BYTES: u64 = 512;

/// Bytes that can be read anywhere. All that reading front matter needs of a [`Source`].
pub(crate) trait ReadAt {
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset`; anything short of that is an error.
    fn fill_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The bytes of `range` where they are in memory already.
    fn lend(&self, range: Range<u64>) -> Option<&[u8]> {
        let _ = range;
        None
    }

    /// The first bytes, by which files are told apart.
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

    fn lend(&self, range: Range<u64>) -> Option<&[u8]> {
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
