//! Options for running a conversion.

use std::fmt;
use std::sync::Arc;

use super::cores::Cores;
use super::workers::HAS_THREADS;
use crate::cancel::CancelToken;
use crate::cpu::CpuLevel;
use crate::io::Existing;

/// Approximate memory of one worker: an input window, an output tile, and intermediate buffers.
const WORKER_BYTES: u64 = 6 << 20;

/// Options for running a conversion; none of them changes the output.
///
/// ```
/// let options = anamnesis::RememberOptions::new().with_threads(2);
/// assert_eq!(options.threads, Some(2));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RememberOptions {
    /// Worker threads; `None` means the default of [`Cores`]. 0 starts no thread at all: the calling thread does all
    /// the work, as on platforms without threads.
    pub threads: Option<usize>,
    /// The CPU level; `None` means the best available.
    pub cpu: Option<CpuLevel>,
    /// Cancels the conversion from another thread.
    pub cancel: Option<CancelToken>,
    /// What to do if the output exists.
    pub existing: Existing,
    /// Called with the name of every finished output tensor.
    pub on_tensor: Option<OnTensor>,
}

impl RememberOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { threads: None, cpu: None, cancel: None, existing: Existing::Replace, on_tensor: None }
    }

    /// Sets the number of worker threads, at least one.
    #[must_use]
    pub const fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(if threads == 0 { 1 } else { threads });
        self
    }

    /// Sets the CPU level.
    #[must_use]
    pub const fn with_cpu_level(mut self, cpu: CpuLevel) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Sets the token that cancels the conversion.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Sets what to do if the output exists.
    #[must_use]
    pub const fn with_existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Sets a callback for the name of every finished output tensor, called on the calling thread.
    #[must_use]
    pub fn with_on_tensor(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_tensor = Some(OnTensor(Arc::new(callback)));
        self
    }

    /// The number of worker threads of a conversion; 0 on platforms without threads.
    #[must_use]
    pub fn threads_used(&self) -> usize {
        if !HAS_THREADS {
            return 0;
        }
        self.threads.unwrap_or_else(|| Cores::found().threads())
    }

    /// The approximate memory of a conversion, whatever the size of the model.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        WORKER_BYTES.saturating_mul(self.threads_used().max(1) as u64)
    }

    /// The CPU instructions to use.
    pub(crate) fn cpu_level(&self) -> CpuLevel {
        self.cpu.unwrap_or_default()
    }

    /// The token that stops the run; one that nobody else has by default.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.cancel.clone().unwrap_or_default()
    }
}

/// A callback for tensor names.
#[derive(Clone)]
pub struct OnTensor(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for OnTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnTensor")
    }
}
