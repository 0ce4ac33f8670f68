//! The files beside the weights: which are copied, which are changed, which are left out.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::config_text::{ConfigEdit, with_quantisation, without_quantisation};
use crate::catalog::TargetDtype;
use crate::checkpoint::{file_inside, metadata, read_sidecar};
use crate::container::sniff;
use crate::convert::outline::Outline;
use crate::convert::{Cast, ConvertOptions};
use crate::error::{AnamnesisError, FileKind, Result, quoted};
use crate::io::{FileSource, ReadAt};
use crate::quant_config::QUANTISATION_ONLY;

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
    /// Written anew: the input has none.
    Made,
    /// Left out, and why.
    Dropped(&'static str),
}

/// What becomes of the configuration.
pub(super) struct ConfigChange {
    /// The new type of the weights, where it has changed.
    dtype: Option<TargetDtype>,
    /// The members of `config.json` that tell of the quantisation, where there is one.
    pub(super) quantisation: Vec<(&'static str, Value)>,
}

impl ConfigChange {
    /// Nothing changes.
    pub(super) const fn none() -> Self {
        Self { dtype: None, quantisation: Vec::new() }
    }

    pub(super) fn of(options: &ConvertOptions, outline: &Outline) -> Result<Self> {
        // A type that was asked for and that no tensor got is not the type of the weights.
        let stats = &outline.stats;
        let is_changed = stats.dequantized + stats.cast > 0 || options.cast == Cast::All && stats.quantized > 0;
        let dtype = if is_changed { Some(options.target_dtype()?.unwrap_or_default()) } else { None };
        Ok(Self { dtype, quantisation: outline.configuration.clone() })
    }

    pub(super) fn apply(&self, name: &str, text: &[u8]) -> Result<ConfigEdit> {
        let edit = match name == "config.json" {
            true => with_quantisation(text, self.dtype, &self.quantisation),
            false => without_quantisation(text, self.dtype),
        };
        edit.map_err(|error| AnamnesisError::parse(format!("{}: {error}", quoted(name))))
    }
}

/// Files whose quantisation is taken out of their text.
const EDITED: [&str; 2] = ["config.json", "params.json"];
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

/// Looks at every entry of the directory but the `weights` that are read, in order of name.
pub(super) fn classify(directory: &Path, weights: &[&str], config: &ConfigChange) -> Result<Vec<Sidecar>> {
    let at = |error| AnamnesisError::at_path(error, directory);
    let weights: HashSet<&str> = weights.iter().copied().collect();
    let mut sidecars = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".safetensors.index.json") || weights.contains(name.as_str()) {
            // Written anew.
            continue;
        }
        let fate = match reason_to_drop(directory, &name, &entry.path())? {
            Some(reason) => SidecarFate::Dropped(reason),
            None if EDITED.contains(&name.as_str()) => edited(directory, &name, config)?,
            None => SidecarFate::Copied,
        };
        sidecars.push(Sidecar { name, fate });
    }
    sidecars.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sidecars)
}

/// Why a file is not taken along. One that cannot be looked at is an error: the model may need it.
fn reason_to_drop(directory: &Path, name: &str, path: &Path) -> Result<Option<&'static str>> {
    if name.starts_with('.') {
        return Ok(Some("hidden"));
    }
    if QUANTISATION_ONLY.contains(&name) {
        return Ok(Some("describes the quantisation only"));
    }
    if name.ends_with(".safetensors") {
        return Ok(Some("weights that are not part of this checkpoint"));
    }
    if WEIGHTS.iter().any(|end| name.ends_with(end)) {
        return Ok(Some("weights in another format"));
    }
    match metadata(path)? {
        Some(metadata) if metadata.is_dir() => return Ok(Some("a folder")),
        Some(metadata) if !metadata.is_file() => return Ok(Some("not a regular file")),
        Some(_) => {}
        None => return Ok(Some("a link to a file that is not there")),
    }
    match file_inside(directory, name) {
        Ok(_) => {}
        Err(error @ AnamnesisError::Io(_)) => return Err(error),
        Err(_) => return Ok(Some("leads out of the directory")),
    }
    let is_pointer = sniff(&FileSource::open(path)?.head()?) == Some(FileKind::GitLfsPointer);
    Ok(is_pointer.then_some("a Git LFS pointer, the file itself was not downloaded"))
}

fn edited(directory: &Path, name: &str, config: &ConfigChange) -> Result<SidecarFate> {
    let edit = config.apply(name, &read_sidecar(directory, name)?)?;
    if edit.removed.is_empty() && edit.changed.is_empty() {
        return Ok(SidecarFate::Copied);
    }
    Ok(SidecarFate::Changed { removed: edit.removed, changed: edit.changed })
}
