//! Restores the tokenizer files of a Hugging Face directory from the `tokenizer.*` keys of GGUF.
//!
//! `tokenizer.json` is the file that transformers reads; `tokenizer.model` is written if there are scores, which the
//! former cannot store; `tokenizer_config.json` has the special tokens and the chat template.

mod byte_level;
mod document;
mod sentencepiece;
mod sentencepiece_model;
mod settings;
mod vocabulary;

use self::vocabulary::StoredVocabulary;
use crate::catalog::Metadata;
use crate::error::Result;

/// Restored files by name, and notes about the parts that could not be restored.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) notes: Vec<String>,
}

/// The files of a vocabulary.
///
/// `Parse` if keys are missing, have the wrong type, or contradict each other.
pub(crate) fn back(metadata: &Metadata) -> Result<Restored> {
    let mut restored = Restored::default();
    let Some(kind) = metadata.get("tokenizer.ggml.model").and_then(|value| value.as_string()) else {
        restored.notes.push("the file has no vocabulary".to_owned());
        return Ok(restored);
    };
    let stored = StoredVocabulary::read(metadata)?;
    let document = match kind {
        "gpt2" => byte_level::document(&stored, &mut restored.notes),
        "llama" => Some(sentencepiece::document(&stored)),
        other => {
            restored.notes.push(format!("a vocabulary of type \"{other}\" is not restored"));
            None
        }
    };
    let Some(document) = document else { return Ok(restored) };
    restored.files.push(("tokenizer.json".to_owned(), document.to_json()));
    if kind == "llama" && stored.has_scores() {
        restored.files.push(("tokenizer.model".to_owned(), sentencepiece_model::encode(&stored)));
    }
    restored.files.push(("tokenizer_config.json".to_owned(), settings::to_json(&stored, kind)));
    Ok(restored)
}
