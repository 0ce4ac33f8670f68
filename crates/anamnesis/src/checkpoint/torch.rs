//! Checkpoint directories whose weights are PyTorch files.

use std::path::Path;

use super::names::{Numbered, TORCH_INDEX_FILE, one_model};
use crate::error::Result;

/// The usual name of a model's weights.
const USUAL: &str = "pytorch_model.bin";
/// Files of a training run that stand beside the weights and are none.
const BESIDE: [&str; 5] = ["training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt"];

/// The weights of a directory without safetensors files and without an index; `None` where there are none.
pub(super) fn files(directory: &Path, names: &[String]) -> Result<Option<Vec<String>>> {
    if names.iter().any(|name| name == TORCH_INDEX_FILE) {
        return Ok(None);
    }
    if names.iter().any(|name| name == USUAL) {
        return Ok(Some(vec![USUAL.to_owned()]));
    }
    let is_weights = |name: &&String| {
        let extension = Path::new(name).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_shard = extension == "bin" && Numbered::parse(name).is_some();
        (is_shard || matches!(extension.as_str(), "pth" | "pt"))
            && !BESIDE.contains(&name.as_str())
            && !name.starts_with("rng_state")
    };
    let models: Vec<_> = names.iter().filter(is_weights).collect();
    one_model(directory, &models)
}
