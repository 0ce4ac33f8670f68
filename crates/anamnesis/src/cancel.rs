//! Cancellation of a running operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{AnamnesisError, Result};

/// Cancels the operations it is passed to; clones share the state. It is polled before every tile, and a cancelled
/// operation leaves no output.
///
/// ```
/// let token = anamnesis::CancelToken::new();
/// let options = anamnesis::RememberOptions::new().with_cancel(token.clone());
/// token.cancel();
/// assert!(token.is_cancelled());
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels permanently.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether [`cancel`](Self::cancel) was called on this token or a clone of it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// `Err(Cancelled)` once the token is cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(AnamnesisError::Cancelled) } else { Ok(()) }
    }
}
