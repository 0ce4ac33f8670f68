//! Random access to the bytes of an input, wherever they live.

use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use super::pool::{self, FilePool, PooledFile};
use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// The bytes of one input file. Reading is positioned, so that worker threads share a source.
pub(crate) trait Source: Send + Sync {
    fn len(&self) -> u64;

    /// Fills `buffer` from `offset`; anything short of that is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

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

fn usize_of(bytes: u64) -> Result<usize> {
    usize::try_from(bytes)
        .map_err(|_| AnamnesisError::limit("address_space", format!("{bytes} bytes do not fit this machine's memory")))
}

pub(super) fn past_end(offset: u64, wanted: usize, len: u64) -> AnamnesisError {
    AnamnesisError::parse(format!("the input ends at byte {len}, {wanted} bytes at {offset} were expected"))
}

/// A file on disk, read with positioned reads; mapped only when a [`view`](Source::view) asks for it.
pub(crate) struct FileSource {
    file: PooledFile,
    map: OnceLock<memmap2::Mmap>,
}

impl FileSource {
    /// A file by itself, which stays open.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::open_in(&FilePool::new(1), path)
    }

    /// One file of many, which is open while it is needed.
    pub(crate) fn open_in(pool: &Arc<FilePool>, path: &Path) -> Result<Self> {
        Ok(Self { file: PooledFile::open(pool, path)?, map: OnceLock::new() })
    }

    fn map(&self) -> Result<&memmap2::Mmap> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let file = self.file.handle()?;
        // SAFETY: the map is read-only and private to this source. A file that another process truncates meanwhile raises
        // SIGBUS, the known limit of every memory map; conversions therefore read instead of mapping.
        let map =
            unsafe { memmap2::Mmap::map(&*file) }.map_err(|error| AnamnesisError::at_path(error, self.file.path()))?;
        if (map.len() as u64) < self.len() {
            return Err(pool::shortened(self.file.path(), self.len()));
        }
        Ok(self.map.get_or_init(|| map))
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn view(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        let (start, end) = (usize_of(range.start)?, usize_of(range.end)?);
        let bytes = self.map()?.get(start..end).ok_or_else(|| past_end(range.start, end - start, self.len()))?;
        Ok(Cow::Borrowed(bytes))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The same promises for every kind of source.
    fn holds_the_promises(source: &dyn Source, content: &[u8]) {
        assert_eq!(source.len(), content.len() as u64);
        let mut buffer = [0; 3];
        source.read_at(2, &mut buffer).unwrap();
        assert_eq!(buffer, content[2..5]);
        assert_eq!(&*source.view(1..4).unwrap(), &content[1..4]);
        assert_eq!(&*source.view(0..0).unwrap(), &[] as &[u8]);
        source.read_at(content.len() as u64, &mut []).unwrap();
        for offset in [content.len() as u64 - 2, content.len() as u64, u64::MAX - 1] {
            assert!(source.read_at(offset, &mut buffer).is_err(), "{offset}");
        }
        assert!(source.view(3..content.len() as u64 + 1).is_err());
    }

    #[test]
    fn files_bytes_and_readers_are_read_alike() {
        let content = b"0123456789";
        holds_the_promises(&BytesSource(content), content);
        holds_the_promises(&ReaderSource::new(std::io::Cursor::new(content)).unwrap(), content);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        holds_the_promises(&FileSource::open(file.path()).unwrap(), content);
        holds_the_promises(&PooledFile::open(&FilePool::new(1), file.path()).unwrap(), content);
    }

    #[test]
    fn a_missing_file_is_named() {
        let Err(error) = FileSource::open(Path::new("no/such/file")) else { panic!("opened") };
        assert!(error.to_string().starts_with("no/such/file: "), "{error}");
    }
}
