//! Opening the input of a command, and what to do where that fails.

use std::io::ErrorKind;
use std::path::Path;

use anamnesis::{AnamnesisError, Checkpoint};

use crate::args::InputArgs;
use crate::exit::Failure;

/// Opens what the user names: a file, or a whole checkpoint.
pub(super) fn checkpoint(input: &InputArgs) -> Result<Checkpoint, Failure> {
    Checkpoint::open_with(&input.path, &input.options()).map_err(|error| advise(error, &input.path))
}

/// Opens one file by itself, even where it is one shard of a set.
pub(super) fn file(input: &InputArgs) -> Result<Checkpoint, Failure> {
    Checkpoint::open_file_with(&input.path, &input.options()).map_err(|error| advise(error, &input.path))
}

/// Adds what the user can do about an input that cannot be opened.
fn advise(error: AnamnesisError, path: &Path) -> Failure {
    let is_there = path.exists();
    let advice = match &error {
        // Files of other kinds begin with something that reads as an enormous header.
        AnamnesisError::LimitExceeded { limit: "MAX_SAFETENSORS_HEADER_BYTES", .. } if path.is_file() => {
            format!("{} does not look like a safetensors file", path.display())
        }
        AnamnesisError::DisallowedGlobal { .. } => {
            "the file holds Python objects, not only tensors: where you trust it, load it in Python and save its state_dict(); \
             amn scan lists what it refers to"
                .to_owned()
        }
        // The input is there and one of its files is not.
        AnamnesisError::Io(cause) if cause.kind() == ErrorKind::NotFound && is_there => {
            if cause.to_string().contains("holds no safetensors file") {
                "name a directory with .safetensors or .gguf files".to_owned()
            } else {
                "download the rest of the checkpoint; amn parse FILE looks into one file alone".to_owned()
            }
        }
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice) }
}
