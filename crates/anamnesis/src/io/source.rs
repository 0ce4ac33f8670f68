//! Random access to the bytes of an input.

use std::borrow::Cow;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// The bytes of an input file. Reads are positioned, so that worker threads share a source.
pub(crate) trait Source: Send + Sync {
    fn len(&self) -> u64;

    /// The length of the file itself, without computed regions.
    fn own_len(&self) -> u64 {
        self.len()
    }

    /// Fills `buffer` from `offset`; a short read is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Hashes the identity of the bytes of `range` within this source.
    fn identify(&self, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        range.hash(&mut hasher);
    }

    /// Fills `buffer` with rows of `row_bytes` bytes, which start every `stride` bytes from `offset`.
    fn read_rows(&self, offset: u64, row_bytes: u64, stride: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for row in buffer.chunks_exact_mut(usize_of(row_bytes)?.max(1)) {
            self.read_at(at, row)?;
            at = at.saturating_add(stride);
        }
        Ok(())
    }

    /// Announces byte ranges that are read next, in about this order.
    fn announce(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// The path of the file, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The paths of all files that are read.
    fn paths(&self) -> Vec<&Path> {
        self.path().into_iter().collect()
    }

    /// Whether random access to the bytes of `range` is expensive.
    fn is_sequential(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Preferred number of bytes of `range` per read.
    fn tile_bytes(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }

    /// Whether the bytes of `range` are stored verbatim, so that viewing them allocates nothing.
    fn is_stored(&self, range: Range<u64>) -> bool {
        range.end <= self.own_len()
    }

    /// The open file that stores the bytes of `range` verbatim, and their offset, for copies inside the kernel.
    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        let _ = range;
        None
    }

    /// The bytes of `range`, if they are in memory.
    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        let _ = range;
        None
    }

    /// The bytes of `range`, borrowed if possible. Unlike [`read_at`](Self::read_at) this may map the file, whose
    /// pages then count as memory of this process.
    fn view(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self.resident(range.clone()) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => {
                let mut bytes = vec![0; usize_of(range.end - range.start)?];
                self.read_at(range.start, &mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

pub(super) fn usize_of(bytes: u64) -> Result<usize> {
    usize::try_from(bytes)
        .map_err(|_| AnamnesisError::limit("address_space", format!("{bytes} bytes do not fit this machine's memory")))
}

pub(super) fn past_end(offset: u64, wanted: usize, len: u64) -> AnamnesisError {
    AnamnesisError::parse(format!("the input ends at byte {len}, {wanted} bytes at {offset} were expected"))
}

/// Bytes in memory, owned or borrowed.
pub(crate) struct BytesSource<B>(pub(crate) B);

impl<B: AsRef<[u8]> + Send + Sync> Source for BytesSource<B> {
    fn len(&self) -> u64 {
        self.0.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        let bytes = self.resident(offset..end).ok_or_else(|| past_end(offset, buffer.len(), self.len()))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        self.0.as_ref().get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }
}

/// A seekable reader behind a mutex.
pub(crate) struct ReaderSource<R> {
    reader: Mutex<R>,
    len: u64,
}

impl<R: Read + Seek + Send> ReaderSource<R> {
    pub(crate) fn new(mut reader: R) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        Ok(Self { reader: Mutex::new(reader), len })
    }
}

impl<R: Read + Seek + Send> Source for ReaderSource<R> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Err(past_end(offset, buffer.len(), self.len));
        }
        // A seek resets whatever state a panicked thread left behind.
        let mut reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset))?;
        Ok(reader.read_exact(buffer)?)
    }
}

/// Reads to the end of `reader`, at most one byte beyond `limit`.
pub(crate) fn read_all(reader: impl Read, budget: &mut Budget, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    budget.buffer(bytes.len() as u64, "the input")?;
    Ok(bytes)
}
