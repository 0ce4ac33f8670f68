//! Overriding the format of GPTQ zero points on an open checkpoint.

use std::sync::OnceLock;

use super::Checkpoint;
use crate::quant_config::GptqFormat;

impl Checkpoint {
    /// Reads the GPTQ weights of this checkpoint in the given format, regardless of its configuration.
    /// See [`GptqFormat`].
    #[must_use]
    pub fn with_gptq_format(mut self, format: GptqFormat) -> Self {
        self.sidecars.set_gptq_format(format);
        self.claimed = OnceLock::new();
        self
    }
}
