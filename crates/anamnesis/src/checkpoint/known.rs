//! Files of a checkpoint directory that are not weights, recognised by name.

use std::path::Path;

use crate::container::OpenOptions;
use crate::error::{AnamnesisError, FileKind, Result};
use crate::limits::is_caller_limit;

/// Fixed file names, with the kind and a description of each file.
const NAMES: [(&str, FileKind, &str); 17] = {
    use FileKind::{Json, SentencePiece, Text, TrainingState};
    [
        ("config.json", Json, "the configuration of a model"),
        ("generation_config.json", Json, "the configuration of a model"),
        ("quantize_config.json", Json, "the configuration of a quantised model"),
        ("hf_quant_config.json", Json, "the configuration of a quantised model"),
        ("params.json", Json, "the configuration of a model"),
        ("tokenizer.json", Json, "the tokenizer of a model"),
        ("tokenizer_config.json", Json, "the configuration of a tokenizer"),
        ("vocab.json", Json, "the vocabulary of a model"),
        ("tokenizer.model", SentencePiece, "the tokenizer of a model"),
        ("spiece.model", SentencePiece, "the tokenizer of a model"),
        ("README.md", Text, "the description of a model"),
        ("training_args.bin", TrainingState, "the arguments of a training run"),
        ("optimizer.pt", TrainingState, "the state of an optimizer"),
        ("optimizer.bin", TrainingState, "the state of an optimizer"),
        ("scheduler.pt", TrainingState, "the state of a learning rate scheduler"),
        ("scheduler.bin", TrainingState, "the state of a learning rate scheduler"),
        ("scaler.pt", TrainingState, "the state of a gradient scaler"),
    ]
};
/// Prefix of the files with the random generator states of a training run, one per process.
const RANDOM_STATE: &str = "rng_state";

fn known(name: &str) -> Option<(FileKind, &'static str)> {
    let random =
        || name.starts_with(RANDOM_STATE).then_some((FileKind::TrainingState, "the random state of a training run"));
    NAMES.iter().find(|(known, ..)| *known == name).map(|(_, kind, what)| (*kind, *what)).or_else(random)
}

fn known_path(path: &Path) -> Option<(FileKind, &'static str)> {
    known(path.file_name()?.to_str()?)
}

/// Whether a file of this name is training state, such as that of an optimizer.
pub(super) fn is_training_state(name: &str) -> bool {
    known(name).is_some_and(|(kind, _)| kind == FileKind::TrainingState)
}

/// Refuses training state, whose tensors are not those of a model, unless the caller asks for all tensors or for
/// one part by name.
pub(super) fn refuse(path: &Path, options: &OpenOptions) -> Result<()> {
    match known_path(path) {
        Some((kind @ FileKind::TrainingState, what)) if !options.all && options.select.is_none() => {
            Err(AnamnesisError::not_a_model(kind, format!("this is {what}, not a model")))
        }
        _ => Ok(()),
    }
}

/// Adds a description of the file to an error of opening it, if its name is known.
pub(super) fn explain(error: AnamnesisError, path: &Path) -> AnamnesisError {
    let Some((by_name, what)) = known_path(path) else { return error };
    match error {
        // JSON and text could be anything; only the file name identifies them.
        AnamnesisError::NotAModel { kind: kind @ (FileKind::Json | FileKind::Text), detail } if kind == by_name => {
            AnamnesisError::not_a_model(kind, format!("{detail}, {what}"))
        }
        AnamnesisError::Parse { .. } => AnamnesisError::not_a_model(by_name, format!("this is {what}")),
        AnamnesisError::LimitExceeded { limit, .. } if !is_caller_limit(limit) => {
            AnamnesisError::not_a_model(by_name, format!("this is {what}"))
        }
        other => other,
    }
}
