//! Output files of callers: bytes in order, which appear complete or not at all.

use std::io::{Result as IoResult, Write};
use std::path::{Path, PathBuf};

use super::existing::Existing;
use super::output::PendingFile;
use super::record;
use crate::error::{AnamnesisError, Result};

/// A file that appears complete when it is committed, or not at all; the writer of every output of this library.
///
/// ```
/// use std::io::Write;
/// use anamnesis::{AtomicFile, Existing};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("notes.txt");
/// let mut file = AtomicFile::create(&path, Existing::Refuse)?;
/// file.write_all(b"two lines\nof text\n")?;
/// assert!(!path.exists());
/// assert_eq!(file.commit()?, 18);
/// assert!(path.exists());
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    pending: PendingFile,
    path: PathBuf,
    bytes: u64,
}

impl AtomicFile {
    /// Begins a file; an existing one is kept until the commit, or refused.
    ///
    /// # Errors
    /// `Io` if it exists and is not to be replaced, is no regular file, or cannot be created.
    pub fn create(path: impl AsRef<Path>, existing: Existing) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        Ok(Self { pending: PendingFile::create(&path, existing, 0)?, path, bytes: 0 })
    }

    /// Waits until the bytes are on the disk, names the file and returns its size.
    ///
    /// # Errors
    /// `Io`; then the file does not appear, and an existing one is unchanged.
    pub fn commit(self) -> Result<u64> {
        self.pending.commit()?;
        record::output(&self.path);
        Ok(self.bytes)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.pending.write_at(self.bytes, bytes).map_err(|error| match error {
            AnamnesisError::Io(error) => error,
            other => std::io::Error::other(other.to_string()),
        })?;
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}
