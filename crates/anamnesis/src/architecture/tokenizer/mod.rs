//! Converts the tokenizer files of a Hugging Face directory to the `tokenizer.*` keys of GGUF.

mod added;
pub(crate) mod back;
mod byte_pair;
mod chat_template;
mod class;
mod document;
mod further;
#[cfg(test)]
pub(crate) mod hostile;
mod internlm;
mod mistral;
mod mistral_version;
mod overrides;
mod phi3;
mod plamo;
mod post_processor;
mod pre;
mod ranked;
mod request;
mod roles;
pub(crate) mod rules;
mod rwkv;
mod sentencepiece;
mod sentencepiece_json;
mod settings;
mod sources;
mod special;
mod tekken;
#[cfg(test)]
mod tests;
mod token_type;
mod unigram;
mod word_piece;

pub(crate) use overrides::write_config_ids;
pub(crate) use request::VocabularyRequest;

use serde_json::Value;

use self::rules::{PiecesUse, VocabularyKind};
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
    if request.rules.suppressed {
        overrides::write_suppressed(files, &mut metadata)?;
    }
    for (flag, truth) in request.rules.first_flags {
        metadata.truth(format!("tokenizer.ggml.{flag}"), *truth);
    }
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
    match request.rules.kind {
        VocabularyKind::ByFilesOrRanked(ranks) if ranked::is_used(&sources, &ranks)? => {
            ranked::write(&sources, request, &ranks, &mut metadata)?;
        }
        VocabularyKind::ByFiles | VocabularyKind::ByFilesOrRanked(_) => by_files(&mut sources, request, &mut metadata)?,
        VocabularyKind::WordPiece(pre) => word_piece::write(&sources, request, pre, &mut metadata)?,
        VocabularyKind::Roberta(pre) if sources.document.is_none() => {
            word_piece::write(&sources, request, pre, &mut metadata)?;
        }
        VocabularyKind::Jina(pre) if sources.settings.class() == Some("BertTokenizer") => {
            word_piece::write(&sources, request, pre, &mut metadata)?;
        }
        VocabularyKind::Roberta(_) | VocabularyKind::Jina(_) => {
            byte_pair::write(&mut sources, request, &mut metadata)?;
            let kinds = match request.rules.kind {
                VocabularyKind::Jina(_) => 2,
                _ => word_piece::token_types(request)?,
            };
            metadata.number("tokenizer.ggml.token_type_count", kinds);
        }
        VocabularyKind::Unigram => unigram::write(&sources, request, &mut metadata)?,
        VocabularyKind::XlmRoberta => unigram::write_xlm_roberta(&sources, request, &mut metadata)?,
        VocabularyKind::Rwkv => rwkv::write(&sources, request, &mut metadata)?,
        VocabularyKind::Mistral => mistral::write(files, request, &mut metadata)?,
        VocabularyKind::Plamo => plamo::write(&sources, request, &mut metadata)?,
        VocabularyKind::Gemma4 => sentencepiece_json::write_with_merges(&mut sources, request, &mut metadata)?,
        VocabularyKind::Ranked(ranks) => ranked::write(&sources, request, &ranks, &mut metadata)?,
        VocabularyKind::OfTarget => {
            let detail = "a draft model has the vocabulary of a model that is no draft itself";
            return Err(AnamnesisError::unsupported_model(ModelPart::Target, request.architecture, detail));
        }
        VocabularyKind::None => metadata.text("tokenizer.ggml.model", "none"),
    }
    (request.rules.add)(request.vocab_size, &mut metadata);
    let is_sentencepiece =
        |(key, value): &(String, MetadataValue)| key == "tokenizer.ggml.model" && value.as_string() == Some("llama");
    if request.rules.no_space_prefix && metadata.entries().iter().any(is_sentencepiece) {
        metadata.truth("tokenizer.ggml.add_space_prefix", false);
    }
    further::write(files, request, &mut metadata)?;
    overrides::write(&sources, request, &mut metadata)?;
    Ok(metadata)
}

/// The vocabulary of `tokenizer.model`, or else of `tokenizer.json`.
fn by_files(sources: &mut Sources<'_>, request: &VocabularyRequest<'_>, metadata: &mut MetadataBuilder) -> Result<()> {
    match sources.model.take() {
        Some(model) if request.rules.internlm => internlm::write(&model, sources, request, metadata),
        Some(model) if request.rules.replaces_pieces => phi3::write(&model, sources, request, metadata),
        Some(model) => sentencepiece::write(&model, sources, request, metadata),
        None => without_model(sources, request, metadata),
    }
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
        Some(document)
            if (request.rules.is_llama || request.rules.pieces_in_json) && sentencepiece_json::has_pieces(document) =>
        {
            sentencepiece_json::write(document, sources, request, metadata)?;
            if request.rules.no_space_prefix_in_json {
                metadata.truth("tokenizer.ggml.add_space_prefix", false);
            }
            Ok(())
        }
        _ => byte_pair::write(sources, request, metadata),
    }
}

fn no_model(request: &VocabularyRequest<'_>) -> AnamnesisError {
    let detail = format!("there is no {}, which has the vocabulary of {}", sources::PIECES, request.architecture);
    AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail)
}
