//! Adapters (LoRA): low-rank matrices that are added to the weights of a model and stored separately.

use super::{Checkpoint, is_file};
use crate::error::Result;

/// Prefixes of the names of adapter weights, in PEFT and in diffusers.
const NAMES: [&str; 2] = ["adapter_model.", "pytorch_lora_weights."];
/// The configuration file of an adapter.
const CONFIG: &str = "adapter_config.json";

impl Checkpoint {
    /// The file that identifies an adapter; `None` if this is a model.
    ///
    /// # Errors
    /// `Io` if its directory cannot be read.
    pub(crate) fn adapter(&self) -> Result<Option<String>> {
        let names = self.paths.iter().filter_map(|path| path.file_name()?.to_str());
        for name in names {
            if NAMES.iter().any(|start| name.starts_with(start)) {
                return Ok(Some(name.to_owned()));
            }
        }
        let Some(directory) = self.directory() else { return Ok(None) };
        // A model that an adapter was merged into may still have the adapter's configuration.
        let is_adapter = is_file(&directory.join(CONFIG))? && !is_file(&directory.join("config.json"))?;
        Ok(is_adapter.then(|| CONFIG.to_owned()))
    }
}
