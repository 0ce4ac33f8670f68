//! WordPiece vocabularies of BERT: continued words lose their mark, other words get one.

use serde_json::Value;

use super::added::{Vocabulary, bounded, refused};
use super::class;
use super::request::VocabularyRequest;
use super::sources::Sources;
use super::special::SpecialTokens;
use super::token_type::{CONTROL, NORMAL, UNUSED, USER_DEFINED, looks_special, padding};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// The mark of tokens that continue a word, in the vocabulary.
const CONTINUED: &str = "##";
/// The mark of tokens that begin a word, in GGUF.
const BEGUN: char = '\u{2581}';

/// `type_vocab_size`: the number of token types.
pub(super) fn token_types(request: &VocabularyRequest<'_>) -> Result<u32> {
    let count = request.filled.map_or(Ok(None), |config| config.count(&["type_vocab_size"]))?;
    Ok(count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1))
}

/// The text of a token in GGUF.
fn phantom(token: &str, kind: i32) -> String {
    match token.strip_prefix(CONTINUED) {
        _ if kind == CONTROL => token.to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("{BEGUN}{token}"),
    }
}

/// Writes the vocabulary of `tokenizer.json`.
pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    pre: &str,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(document) = sources.document.as_ref() else {
        let detail = "there is no tokenizer.json with a WordPiece vocabulary";
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    let kind = document.model.kind.as_deref().unwrap_or("WordPiece");
    if kind != "WordPiece" {
        let detail = format!("tokenizer.json has a model of type {}, WordPiece is needed", quoted(kind));
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    }
    let settings = class::with_defaults(&sources.settings, request, false);
    let vocabulary = Vocabulary::new(document, &settings)?;
    let size = bounded(request.vocab_size.unwrap_or_else(|| vocabulary.len() as u64))?;
    let (mut tokens, mut kinds) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for (id, entry) in vocabulary.by_id(size)?.into_iter().enumerate() {
        let (token, kind) = match entry {
            None => (padding(id), UNUSED),
            Some((token, None)) => (token.to_owned(), NORMAL),
            Some((token, Some(added))) if added.special || looks_special(token) => (token.to_owned(), CONTROL),
            Some((token, Some(_))) => (token.replace(BEGUN, " "), USER_DEFINED),
        };
        tokens.push(phantom(&token, kind));
        kinds.push(kind);
    }
    if tokens.is_empty() {
        return Err(refused("it has no tokens".to_owned()));
    }
    metadata.number("tokenizer.ggml.token_type_count", token_types(request)?);
    metadata.text("tokenizer.ggml.model", "bert");
    metadata.text("tokenizer.ggml.pre", request.pre.unwrap_or(pre));
    let end = u32::try_from(tokens.len()).ok();
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    let mut special = SpecialTokens::read(Some(document), &sources.settings, request.config, end)?;
    special.chat_template = sources.chat_template(metadata)?;
    special.write(metadata)
}

/// A flag of the tokenizer's settings.
pub(super) fn flag(sources: &Sources<'_>, key: &str) -> Option<bool> {
    sources.settings.get(key).and_then(Value::as_bool)
}
