//! Sinks: destinations of finished tiles.

use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::output::{CompleteFile, PendingFile};
use crate::io::zeroed;

/// A destination of output bytes, shared by several workers.
pub(crate) trait TileSink: Send + Sync {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Copies `bytes` bytes of a file from `from` on inside the kernel; `false` if that is not possible.
    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        let _ = (offset, file, from, bytes);
        Ok(false)
    }

    /// Wakes workers that wait in [`put`](Self::put) after another one failed.
    fn stop(&self) {}

    /// Flushes written bytes. Called from time to time concurrently with the workers, to keep the disk busy.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Completes the output after its last byte.
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

/// A file that is named when it is complete.
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
        self.gate.enter(|| self.file.write_at(offset, bytes))
    }

    fn copy(&self, offset: u64, file: &File, from: u64, bytes: u64) -> Result<bool> {
        self.gate.enter(|| self.file.copy_at(offset, file, from, bytes))
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    fn complete(&self) -> Result<()> {
        self.file.commit()
    }
}

/// A file that is passed on when it is complete, to be named later.
pub(crate) struct UnnamedFileSink<F> {
    sink: FileSink,
    take: F,
}

impl<F: Fn(CompleteFile) + Send + Sync> UnnamedFileSink<F> {
    pub(crate) const fn new(sink: FileSink, take: F) -> Self {
        Self { sink, take }
    }
}

impl<F: Fn(CompleteFile) + Send + Sync> TileSink for UnnamedFileSink<F> {
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

/// Limits concurrent writers. The kernel serialises writes to a file by spinning; here workers sleep instead.
#[derive(Default)]
struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// One writer, and one that is ready to follow.
    const MAX_WRITERS: usize = 2;

    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let lock = || self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |inside: &mut usize| *inside >= Self::MAX_WRITERS;
        *self.left.wait_while(lock(), is_full).unwrap_or_else(PoisonError::into_inner) += 1;
        let result = work();
        *lock() -= 1;
        self.left.notify_one();
        result
    }
}

/// Discards all bytes, for measuring quantisation errors only.
pub(crate) struct NullSink;

impl TileSink for NullSink {
    fn put(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// An output in memory.
pub(crate) struct MemorySink(Mutex<Vec<u8>>);

impl MemorySink {
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        // Fallible first: allocating zeroed memory that is not available aborts the process.
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
