//! Where finished tiles go.

use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::output::{CompleteFile, PendingFile};
use crate::io::zeroed;

/// Takes finished bytes at their place in the output, from several workers at once.
pub(crate) trait TileSink: Send + Sync {
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

    /// Ends the output, once every byte has been put.
    fn complete(&self) -> Result<()> {
        Ok(())
    }
}

impl<T: TileSink + ?Sized> TileSink for &T {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        (**self).put(offset, bytes)
    }

    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        (**self).copy(offset, file, from, bytes)
    }

    fn stop(&self) {
        (**self).stop();
    }

    fn flush(&self) -> Result<()> {
        (**self).flush()
    }

    fn complete(&self) -> Result<()> {
        (**self).complete()
    }
}

/// A file that appears when it is complete.
pub(crate) struct FileSink {
    file: PendingFile,
    gate: Gate,
}

impl FileSink {
    pub(crate) fn new(file: PendingFile) -> Self {
        Self { file, gate: Gate::default() }
    }
}

impl TileSink for FileSink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.gate.pass(|| self.file.write_at(offset, bytes))
    }

    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        self.gate.pass(|| self.file.copy_at(offset, file, from, bytes))
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    fn complete(&self) -> Result<()> {
        self.file.commit()
    }
}

/// A file that is given away when it is complete, and gets its name from others.
pub(crate) struct WaitingSink<F> {
    sink: FileSink,
    take: F,
}

impl<F: Fn(CompleteFile) + Send + Sync> WaitingSink<F> {
    pub(crate) const fn new(sink: FileSink, take: F) -> Self {
        Self { sink, take }
    }
}

impl<F: Fn(CompleteFile) + Send + Sync> TileSink for WaitingSink<F> {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.sink.put(offset, bytes)
    }

    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        self.sink.copy(offset, file, from, bytes)
    }

    fn flush(&self) -> Result<()> {
        self.sink.flush()
    }

    fn complete(&self) -> Result<()> {
        if let Some(file) = self.sink.file.complete()? {
            (self.take)(file);
        }
        Ok(())
    }
}

/// Lets few at a time through. The system lets one writer at a time into a file and has the others spin; here they sleep, each
/// with a tile that is ready.
#[derive(Default)]
struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// One who writes, and one who is there when he is done.
    const PLACES: usize = 2;

    fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        let lock = || self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |inside: &mut usize| *inside >= Self::PLACES;
        *self.left.wait_while(lock(), is_full).unwrap_or_else(PoisonError::into_inner) += 1;
        let result = work();
        *lock() -= 1;
        self.left.notify_one();
        result
    }
}

/// Takes everything and keeps nothing: where only the error of what would be written is wanted.
pub(crate) struct Nowhere;

impl TileSink for Nowhere {
    fn put(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
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

    pub(crate) fn into_bytes(self) -> Vec<u8> {
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
