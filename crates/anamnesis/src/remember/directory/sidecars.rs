//! The files beside the weights: which are copied, which are changed, which are left out.

use std::path::Path;

use crate::catalog::TargetDtype;
use crate::checkpoint::{file_inside, read_sidecar, without_quantisation};
use crate::error::{AnamnesisError, Result, quoted};

/// A file beside the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sidecar {
    /// Its name inside the directory.
    pub name: String,
    /// What happens to it.
    pub fate: SidecarFate,
}

/// What happens to a file beside the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SidecarFate {
    /// Copied byte for byte.
    Copied,
    /// Copied with these members taken out or changed.
    Changed {
        /// Members that are no longer there.
        removed: Vec<String>,
        /// Members with another value.
        changed: Vec<String>,
    },
    /// Left out, and why.
    Dropped(&'static str),
}

/// Files whose quantisation is taken out of their text.
const EDITED: [&str; 2] = ["config.json", "params.json"];
/// Files that only describe a quantisation.
const QUANTISATION_ONLY: [&str; 4] =
    ["quantize_config.json", "hf_quant_config.json", "quant_config.json", "quantization_config.json"];
/// Ends of the names of weights and of what belongs to them.
const WEIGHTS: [&str; 14] = [
    ".safetensors",
    ".safetensors.index.json",
    ".bin",
    ".bin.index.json",
    ".pt",
    ".pth",
    ".ckpt",
    ".gguf",
    ".ggml",
    ".h5",
    ".msgpack",
    ".onnx",
    ".onnx_data",
    ".tflite",
];

/// Looks at every entry of the directory, in order of name.
pub(super) fn classify(directory: &Path, target: TargetDtype) -> Result<Vec<Sidecar>> {
    let at = |error| AnamnesisError::at_path(error, directory);
    let mut sidecars = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") {
            // Written anew.
            continue;
        }
        let is_dir = std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
        let fate = fate(directory, &name, is_dir, target)?;
        sidecars.push(Sidecar { name, fate });
    }
    sidecars.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sidecars)
}

fn fate(directory: &Path, name: &str, is_dir: bool, target: TargetDtype) -> Result<SidecarFate> {
    if name.starts_with('.') {
        return Ok(SidecarFate::Dropped("hidden"));
    }
    if is_dir {
        return Ok(SidecarFate::Dropped("a folder"));
    }
    if QUANTISATION_ONLY.contains(&name) {
        return Ok(SidecarFate::Dropped("describes the quantisation only"));
    }
    if WEIGHTS.iter().any(|end| name.ends_with(end)) {
        return Ok(SidecarFate::Dropped("weights in another format"));
    }
    file_inside(directory, name)?;
    if !EDITED.contains(&name) {
        return Ok(SidecarFate::Copied);
    }
    let edit = without_quantisation(&read_sidecar(directory, name)?, target)
        .map_err(|error| AnamnesisError::parse(format!("{}: {error}", quoted(name))))?;
    Ok(SidecarFate::Changed { removed: edit.removed, changed: edit.changed })
}
