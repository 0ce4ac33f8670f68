//! Where finished tiles go.

use std::fs::File;
use std::sync::{Mutex, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::output::PendingFile;
use crate::io::zeroed;

/// Takes finished bytes at their place in the output, from several workers at once.
pub(crate) trait TileSink: Sync {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Takes `bytes` bytes of a file from `from` on without showing them to the caller. Says no where that cannot be done.
    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        let _ = (offset, file, from, bytes);
        Ok(false)
    }

    /// Lets go of whoever waits in [`put`](Self::put): a worker has failed, and what they wait for may never come.
    fn stop(&self) {}

    /// Moves what has been put so far to where it stays. Called now and then beside the workers, so that the disk works
    /// while they do.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// A file that appears when it is complete.
pub(crate) struct FileSink(PendingFile);

impl FileSink {
    pub(crate) fn new(file: PendingFile) -> Self {
        Self(file)
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        self.0.commit()
    }
}

impl TileSink for FileSink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        self.0.copy_at(offset, file, from, bytes)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}

/// The output in memory.
pub(crate) struct MemorySink(Mutex<Vec<u8>>);

impl MemorySink {
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        // Asked for first, because a zeroed vector that cannot be had ends the process.
        Vec::<u8>::new()
            .try_reserve_exact(bytes)
            .map_err(|_| AnamnesisError::limit("available_memory", format!("the output takes {bytes} bytes")))?;
        Ok(Self(Mutex::new(zeroed(bytes))))
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TileSink for MemorySink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = offset as usize;
        output[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
