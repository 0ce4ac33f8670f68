//! Files of a checkpoint that are not its weights, by their names.

use std::path::Path;

use crate::container::OpenOptions;
use crate::error::{AnamnesisError, FileKind, Result};
use crate::limits::is_caller_limit;

/// What such files are, where their names are always the same.
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
/// How the names of files begin that keep the random numbers of a training run, one for each process.
const RANDOM_STATE: &str = "rng_state";

fn known(name: &str) -> Option<(FileKind, &'static str)> {
    let random =
        || name.starts_with(RANDOM_STATE).then_some((FileKind::TrainingState, "the random state of a training run"));
    NAMES.iter().find(|(known, ..)| *known == name).map(|(_, kind, what)| (*kind, *what)).or_else(random)
}

fn known_path(path: &Path) -> Option<(FileKind, &'static str)> {
    known(path.file_name()?.to_str()?)
}

/// Whether a file of this name is what training leaves beside a model.
pub(super) fn is_training_state(name: &str) -> bool {
    known(name).is_some_and(|(kind, _)| kind == FileKind::TrainingState)
}

/// Refuses what training leaves beside a model: it may hold tensors, but not those of a model. Who asks for everything, or for
/// one part by its name, gets it.
pub(super) fn refuse(path: &Path, options: &OpenOptions) -> Result<()> {
    match known_path(path) {
        Some((kind @ FileKind::TrainingState, what)) if !options.all && options.select.is_none() => {
            Err(AnamnesisError::not_a_model(kind, format!("this is {what}, not a model")))
        }
        _ => Ok(()),
    }
}

/// The error of opening a file, with what the file is by its name where that is known.
pub(super) fn explain(error: AnamnesisError, path: &Path) -> AnamnesisError {
    let Some((by_name, what)) = known_path(path) else { return error };
    match error {
        // What holds any text needs a name to be something.
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
