//! Converts the tokenizer files of a Hugging Face directory to the `tokenizer.*` keys of GGUF.

mod added;
pub(crate) mod back;
mod byte_level;
mod byte_pair;
mod chat_template;
mod class;
mod document;
#[cfg(test)]
pub(crate) mod hostile;
mod phi3;
mod post_processor;
mod pre;
mod protobuf;
mod request;
mod roles;
pub(crate) mod rules;
mod sentencepiece;
mod sentencepiece_json;
mod settings;
mod sources;
mod special;
mod tekken;
#[cfg(test)]
mod tests;
mod token_type;

pub(crate) use request::VocabularyRequest;

use serde_json::Value;

use self::rules::PiecesUse;
use self::sources::Sources;
use super::metadata_builder::MetadataBuilder;
use super::sidecars::SidecarFiles;
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, ModelPart, Result};

/// The `tokenizer.*` keys of a model, in the order they are written.
///
/// # Errors
/// `Parse` if a file contradicts itself or the configuration, `UnsupportedModel` if there is no supported vocabulary or
/// its pre-tokenizer is unknown.
pub(crate) fn keys(files: &dyn SidecarFiles, request: &VocabularyRequest<'_>) -> Result<MetadataBuilder> {
    let mut metadata = MetadataBuilder::default();
    let mut sources = Sources::read(files, request.rules)?;
    if request.rules.is_llama {
        if sources.document.is_none()
            && let Some(text) = files.read(tekken::FILE)?
        {
            tekken::write(&text, request, &mut metadata)?;
            return Ok(metadata);
        }
        if let Some(prefix) = sources.settings.get("add_prefix_space").and_then(Value::as_bool) {
            metadata.truth("tokenizer.ggml.add_space_prefix", prefix);
        }
    }
    match sources.model.take() {
        Some(model) if request.rules.replaces_pieces => phi3::write(&model, &sources, request, &mut metadata)?,
        Some(model) => sentencepiece::write(&model, &sources, request, &mut metadata)?,
        None => without_model(&mut sources, request, &mut metadata)?,
    }
    (request.rules.add)(request.vocab_size, &mut metadata);
    let is_sentencepiece =
        |(key, value): &(String, MetadataValue)| key == "tokenizer.ggml.model" && value.as_string() == Some("llama");
    if request.rules.no_space_prefix && metadata.entries().iter().any(is_sentencepiece) {
        metadata.truth("tokenizer.ggml.add_space_prefix", false);
    }
    Ok(metadata)
}

/// The vocabulary of `tokenizer.json`.
fn without_model(
    sources: &mut Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    match request.rules.pieces {
        PiecesUse::Required => return Err(no_model(request)),
        PiecesUse::RequiredUnlessGpt2 if !sources.settings.is_gpt2() => return Err(no_model(request)),
        PiecesUse::Never | PiecesUse::First | PiecesUse::Last | PiecesUse::RequiredUnlessGpt2 => {}
    }
    match &sources.document {
        Some(document) if request.rules.is_llama && sentencepiece_json::has_pieces(document) => {
            sentencepiece_json::write(document, sources, request, metadata)
        }
        _ => byte_pair::write(sources, request, metadata),
    }
}

fn no_model(request: &VocabularyRequest<'_>) -> AnamnesisError {
    let detail = format!("there is no {}, which has the vocabulary of {}", sources::PIECES, request.architecture);
    AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail)
}
