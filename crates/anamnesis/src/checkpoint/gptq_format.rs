//! Saying how GPTQ weights store their zero points after a checkpoint was opened.

use std::sync::OnceLock;

use super::Checkpoint;
use crate::quant_config::GptqFormat;

impl Checkpoint {
    /// The checkpoint with its GPTQ weights read in this format, whatever its files say. See [`GptqFormat`].
    #[must_use]
    pub fn with_gptq_format(mut self, format: GptqFormat) -> Self {
        self.beside.set_gptq_format(format);
        self.claimed = OnceLock::new();
        self
    }
}
