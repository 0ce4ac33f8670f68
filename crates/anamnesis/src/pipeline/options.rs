//! How a conversion runs.

use std::fmt;
use std::sync::Arc;

use super::cores::Cores;
use crate::cancel::CancelToken;
use crate::cpu::CpuLevel;
use crate::io::output::Existing;

/// What one worker takes, roughly: a window of the input, a tile of the output, and what is between them.
const WORKER_BYTES: u64 = 6 << 20;

/// How a conversion runs; none of it changes the bytes it writes.
///
/// ```
/// let options = anamnesis::RememberOptions::new().with_threads(2);
/// assert_eq!(options.threads, Some(2));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RememberOptions {
    /// Worker threads; `None` means as many as [`Cores`] advise.
    pub threads: Option<usize>,
    /// The CPU instructions to use; `None` means the best there are.
    pub cpu: Option<CpuLevel>,
    /// Stops the conversion from another thread.
    pub cancel: Option<CancelToken>,
    /// What to do with a file that is already there.
    pub existing: Existing,
    /// Told the name of every output tensor that is finished.
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

    /// Sets the CPU instructions to use.
    #[must_use]
    pub const fn with_cpu_level(mut self, cpu: CpuLevel) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Lets `cancel` stop the conversion.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Decides about a file that is already there.
    #[must_use]
    pub const fn with_existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Lets `tell` know the name of every output tensor once it is finished, on the calling thread.
    #[must_use]
    pub fn with_on_tensor(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_tensor = Some(OnTensor(Arc::new(tell)));
        self
    }

    /// The number of worker threads that a conversion starts.
    #[must_use]
    pub fn threads_used(&self) -> usize {
        self.threads.unwrap_or_else(|| Cores::found().threads())
    }

    /// The memory that a conversion takes, roughly, whatever the size of the model.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        WORKER_BYTES.saturating_mul(self.threads_used() as u64)
    }

    pub(crate) fn run_options(&self) -> RunOptions {
        RunOptions {
            threads: self.threads_used(),
            cpu: self.cpu.unwrap_or_default(),
            cancel: self.cancel.clone().unwrap_or_default(),
            on_tensor: self.on_tensor.clone(),
        }
    }
}

/// Is told the names of tensors.
#[derive(Clone)]
pub struct OnTensor(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for OnTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnTensor")
    }
}

/// What a run needs to know besides the plan.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub threads: usize,
    pub cpu: CpuLevel,
    pub cancel: CancelToken,
    pub on_tensor: Option<OnTensor>,
}
