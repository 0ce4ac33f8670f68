//! Threads of a run.

use std::thread::{Scope, ScopedJoinHandle};

use crate::error::{AnamnesisError, Result};

/// Whether the platform has threads. WebAssembly has none, or none that the standard library starts: runs take place
/// on the calling thread.
pub(super) const HAS_THREADS: bool = !cfg!(target_family = "wasm");

/// Starts a scoped thread.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().spawn_scoped(scope, work).map_err(|error| {
        let text = format!("a thread cannot be started: {error}");
        AnamnesisError::Io(std::io::Error::new(error.kind(), text))
    })
}

/// Joins a thread.
pub(super) fn join(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(AnamnesisError::parse("a worker thread panicked")))
}
