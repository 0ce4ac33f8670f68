//! A file on disk as a source.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::Source;
use super::pool::{self, FilePool, PooledFile};
use super::source::{past_end, usize_of};
use crate::error::{AnamnesisError, Result};

/// A file, read with positioned reads; mapped only by [`view`](Source::view).
pub(crate) struct FileSource {
    file: PooledFile,
    map: OnceLock<memmap2::Mmap>,
}

impl FileSource {
    /// Opens a single file, which stays open.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::open_in(&FilePool::new(1), path)
    }

    /// Opens one file of many, which the pool may close temporarily.
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

    fn path(&self) -> Option<&Path> {
        Some(self.file.path())
    }

    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        (range.end <= self.len()).then(|| self.file.handle().ok()).flatten().map(|file| (file, range.start))
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

#[cfg(test)]
mod tests {
    use super::super::{BytesSource, ReaderSource};
    use super::*;

    /// Checks the contract of `Source`.
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
    fn files_bytes_and_readers_behave_alike() {
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
