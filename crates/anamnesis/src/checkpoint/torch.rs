//! Checkpoint directories whose weights are PyTorch files.

use std::path::Path;

use super::known::is_training_state;
use super::names::{Numbered, TORCH_INDEX_FILE, is_named_as, one_model};
use crate::container::Format;
use crate::error::Result;

/// The default name of a model's weights.
const DEFAULT_FILE: &str = "pytorch_model.bin";

/// The weight files of a directory without safetensors files and without an index; `None` if there are none.
pub(super) fn files(directory: &Path, names: &[String]) -> Result<Option<Vec<String>>> {
    if names.iter().any(|name| name == TORCH_INDEX_FILE) {
        return Ok(None);
    }
    if names.iter().any(|name| name == DEFAULT_FILE) {
        return Ok(Some(vec![DEFAULT_FILE.to_owned()]));
    }
    let is_weights = |name: &&String| {
        let is_shard = name.to_ascii_lowercase().ends_with(".bin") && Numbered::parse(name).is_some();
        (is_shard || is_named_as(name, Format::Pth)) && !is_training_state(name)
    };
    let models: Vec<_> = names.iter().filter(is_weights).collect();
    one_model(directory, &models)
}
