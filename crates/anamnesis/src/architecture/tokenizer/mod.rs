//! Vocabularies: from the files of a Hugging Face directory to the `tokenizer.*` keys of GGUF.

mod added;
pub(crate) mod back;
mod byte_level;
mod byte_pair;
mod chat_template;
mod class;
mod document;
#[cfg(test)]
pub(crate) mod hostile;
mod kinds;
mod phi3;
mod pieces_in_json;
mod post_processor;
mod pre;
mod protobuf;
mod roles;
pub(crate) mod rules;
mod sentencepiece;
mod settings;
mod sources;
mod special;
mod tekken;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use wanted::Wanted;

use serde_json::Value;

use self::rules::PiecesUse;
use self::sources::Sources;
use super::beside::SidecarFiles;
use super::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, ModelPart, Result};

/// The `tokenizer.*` keys of a model, in the order they are written.
///
/// # Errors
/// `Parse` where a file contradicts itself or the configuration, `UnsupportedModel` where there is no vocabulary that is read, or
/// nothing tells how its text is cut.
pub(crate) fn keys(files: &dyn SidecarFiles, wanted: &Wanted<'_>) -> Result<MetadataBuilder> {
    let mut told = MetadataBuilder::default();
    let mut sources = Sources::read(files, wanted.rules)?;
    if wanted.rules.is_llama {
        if sources.document.is_none()
            && let Some(text) = files.read(tekken::FILE)?
        {
            tekken::tell(&text, wanted, &mut told)?;
            return Ok(told);
        }
        if let Some(prefix) = sources.settings.get("add_prefix_space").and_then(Value::as_bool) {
            told.truth("tokenizer.ggml.add_space_prefix", prefix);
        }
    }
    match sources.model.take() {
        Some(model) if wanted.rules.replaces_pieces => phi3::tell(&model, &sources, wanted, &mut told)?,
        Some(model) => sentencepiece::tell(&model, &sources, wanted, &mut told)?,
        None => without_model(&mut sources, wanted, &mut told)?,
    }
    (wanted.rules.add)(wanted.vocab_size, &mut told);
    let is_model =
        |(key, value): &(String, MetadataValue)| key == "tokenizer.ggml.model" && value.as_string() == Some("llama");
    if wanted.rules.no_space_prefix && told.entries().iter().any(is_model) {
        told.truth("tokenizer.ggml.add_space_prefix", false);
    }
    Ok(told)
}

/// The vocabulary of `tokenizer.json`.
fn without_model(sources: &mut Sources<'_>, wanted: &Wanted<'_>, told: &mut MetadataBuilder) -> Result<()> {
    match wanted.rules.pieces {
        PiecesUse::Required => return Err(no_model(wanted)),
        PiecesUse::RequiredUnlessGpt2 if !sources.settings.is_gpt2() => return Err(no_model(wanted)),
        PiecesUse::Never | PiecesUse::First | PiecesUse::Last | PiecesUse::RequiredUnlessGpt2 => {}
    }
    match &sources.document {
        Some(document) if wanted.rules.is_llama && pieces_in_json::is_in(document) => {
            pieces_in_json::tell(document, sources, wanted, told)
        }
        _ => byte_pair::tell(sources, wanted, told),
    }
}

fn no_model(wanted: &Wanted<'_>) -> AnamnesisError {
    let detail =
        format!("there is no {}, from which the vocabulary of {} is taken", sources::PIECES, wanted.architecture);
    AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail)
}
