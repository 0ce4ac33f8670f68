//! From the `tokenizer.*` keys of GGUF back to the files of a Hugging Face directory.
//!
//! `tokenizer.json` is what transformers reads; `tokenizer.model` is written where the keys have scores, which have no place
//! in the other; `tokenizer_config.json` has the roles of tokens and the chat template.

mod byte_level;
mod document;
mod model;
mod pieces;
mod settings;
mod vocabulary;

use self::vocabulary::Stored;
use crate::catalog::Metadata;
use crate::error::Result;

/// Files by name, and what could not be restored.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) notes: Vec<String>,
}

/// The files of a vocabulary.
///
/// # Errors
/// `Parse` where keys are missing, of another type, or contradict each other.
pub(crate) fn back(metadata: &Metadata) -> Result<Restored> {
    let mut restored = Restored::default();
    let Some(kind) = metadata.get("tokenizer.ggml.model").and_then(|value| value.as_string()) else {
        restored.notes.push("the file has no vocabulary".to_owned());
        return Ok(restored);
    };
    let stored = Stored::read(metadata)?;
    let document = match kind {
        "gpt2" => byte_level::document(&stored, &mut restored.notes),
        "llama" => Some(pieces::document(&stored)),
        other => {
            restored.notes.push(format!("a vocabulary of the kind \"{other}\" is not restored"));
            None
        }
    };
    let Some(document) = document else { return Ok(restored) };
    restored.files.push(("tokenizer.json".to_owned(), document.written()));
    if kind == "llama" && stored.has_scores() {
        restored.files.push(("tokenizer.model".to_owned(), model::written(&stored)));
    }
    restored.files.push(("tokenizer_config.json".to_owned(), settings::written(&stored, kind)));
    Ok(restored)
}
