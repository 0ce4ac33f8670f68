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
mod sentencepiece;
mod settings;
mod sources;
mod special;
mod tekken;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use wanted::{Family, Wanted};

use serde_json::Value;

use self::sources::Sources;
use super::beside::SidecarFiles;
use super::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, ModelPart, Result};

/// The `tokenizer.*` keys of a model, in the order they are written.
///
/// # Errors
/// `Parse` where a file contradicts itself or the configuration, `UnsupportedModel` where there is no vocabulary that is read, or
/// nothing tells how its text is cut.
pub(crate) fn keys(files: &dyn SidecarFiles, wanted: &Wanted<'_>) -> Result<MetadataBuilder> {
    let mut told = MetadataBuilder::default();
    let mut sources = Sources::read(files, wanted.family)?;
    if wanted.family == Family::LlamaLike {
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
        Some(model) if wanted.family == Family::Phi3 => phi3::tell(&model, &sources, wanted, &mut told)?,
        Some(model) => sentencepiece::tell(&model, &sources, wanted, &mut told)?,
        None => without_model(&mut sources, wanted, &mut told)?,
    }
    added_by_family(wanted, &mut told);
    Ok(told)
}

/// Keys that a family has whatever its files say.
fn added_by_family(wanted: &Wanted<'_>, told: &mut MetadataBuilder) {
    let has_pieces =
        told.entries().iter().any(|(key, value)| key == "tokenizer.ggml.model" && value.as_string() == Some("llama"));
    match (wanted.family, wanted.vocab_size) {
        // Code Llama: the end of what is filled in.
        (Family::LlamaLike, Some(32016)) => told.number("tokenizer.ggml.eot_token_id", 32010),
        // Small Granite models.
        (Family::LlamaLike, Some(49152)) => told.truth("tokenizer.ggml.add_bos_token", false),
        // Of the tokens of CodeGemma, GGUF has a key for this one only.
        (Family::Gemma, _) => told.number("tokenizer.ggml.eot_token_id", 107),
        _ => {}
    }
    if matches!(wanted.family, Family::Gemma | Family::Gemma2 | Family::Gemma3) && has_pieces {
        told.truth("tokenizer.ggml.add_space_prefix", false);
    }
}

/// The vocabulary of `tokenizer.json`.
fn without_model(sources: &mut Sources<'_>, wanted: &Wanted<'_>, told: &mut MetadataBuilder) -> Result<()> {
    let roles = match wanted.family {
        Family::Glm4 => roles::glm4,
        Family::Glm4Moe => roles::glm4_moe,
        Family::Gemma | Family::Gemma2 => return Err(no_model(wanted)),
        Family::Phi3 if sources.settings.class() != Some("GPT2Tokenizer") => return Err(no_model(wanted)),
        _ => roles::none,
    };
    match &sources.document {
        Some(document) if wanted.family == Family::LlamaLike && pieces_in_json::is_in(document) => {
            pieces_in_json::tell(document, sources, wanted, told)
        }
        _ => byte_pair::tell(sources, wanted, roles, told),
    }
}

fn no_model(wanted: &Wanted<'_>) -> AnamnesisError {
    let detail =
        format!("there is no {}, from which the vocabulary of {} is taken", sources::PIECES, wanted.architecture);
    AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail)
}
