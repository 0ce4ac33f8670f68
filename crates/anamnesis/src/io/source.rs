//! Random access to the bytes of an input, wherever they live.

use std::borrow::Cow;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// The bytes of one input file. Reading is positioned, so that worker threads share a source.
pub(crate) trait Source: Send + Sync {
    fn len(&self) -> u64;

    /// The bytes that are the input's own, in front of any that are made of them.
    fn own_len(&self) -> u64 {
        self.len()
    }

    /// Fills `buffer` from `offset`; anything short of that is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Hashes what tells the bytes of `range` from all others that can be read here: where the input has them, and how they
    /// are made of what it has.
    fn identify(&self, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        range.hash(&mut hasher);
    }

    /// Fills `buffer` with rows of `row_bytes` bytes, one behind the other, that begin every `stride` bytes from `offset` on.
    fn read_rows(&self, offset: u64, row_bytes: u64, stride: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for row in buffer.chunks_exact_mut(usize_of(row_bytes)?.max(1)) {
            self.read_at(at, row)?;
            at = at.saturating_add(stride);
        }
        Ok(())
    }

    /// The file these bytes are in, if it is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Whether the bytes of `range` can only be read well from front to back.
    fn is_sequential(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// How many of the bytes of `range` to read at a time, where that matters.
    fn tile_bytes(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }

    /// Whether the input has the bytes of `range` as they are, so that a view of them is nothing new in memory.
    fn is_stored(&self, range: Range<u64>) -> bool {
        range.end <= self.own_len()
    }

    /// The open file that holds the bytes of `range` as they are, and where: the system can copy them without showing them.
    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        let _ = range;
        None
    }

    /// The bytes of `range` where they are in memory already, at no cost.
    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        let _ = range;
        None
    }

    /// The bytes of `range`, borrowed where possible. Unlike [`read_at`](Self::read_at) this may map the file, whose pages
    /// then count as this process's memory.
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

/// Any reader that can seek; readers take turns.
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
        // A reader that panicked in another thread left no state that a seek does not reset.
        let mut reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset))?;
        Ok(reader.read_exact(buffer)?)
    }
}

/// Reads everything `reader` has, within the budget: it stops one byte after the limit.
pub(crate) fn read_all(reader: impl Read, budget: &mut Budget, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    budget.buffer(bytes.len() as u64, "the input")?;
    Ok(bytes)
}
