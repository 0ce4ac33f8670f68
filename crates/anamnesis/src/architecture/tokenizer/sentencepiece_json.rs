//! SentencePiece vocabularies that exist only in `tokenizer.json`, without scores.

use serde_json::Value;

use super::added::{Vocabulary, refused};
use super::class;
use super::document::Document;
use super::pre;
use super::request::VocabularyRequest;
use super::sentencepiece::{ADDED_SCORE, Tokens};
use super::sources::Sources;
use super::token_type::{BYTE, CONTROL, NORMAL, USER_DEFINED, byte_of};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, Result, quoted};

/// Whether the document has a SentencePiece vocabulary.
pub(super) fn has_pieces(document: &Document) -> bool {
    let model = &document.model;
    let falls_back = model.byte_fallback;
    let is_llama3 = model.ignore_merges && !falls_back.unwrap_or(true);
    let is_sequence = document.decoder.get("type").and_then(Value::as_str) == Some("Sequence");
    model.kind.as_deref() == Some("BPE") && !is_llama3 && falls_back.unwrap_or(false) && is_sequence
}

pub(super) fn write(
    document: &Document,
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    if let Some(kind) = pre::unsupported_for_sentencepiece(&document.normalizer) {
        let detail = format!("the normalizer {} of tokenizer.json cannot be stored in GGUF", quoted(&kind));
        return Err(AnamnesisError::unsupported("tokenizer", detail));
    }
    let settings = class::with_defaults(&sources.settings, request, false);
    let vocabulary = Vocabulary::new(document, &settings)?;
    let special: Vec<String> = settings.named().into_iter().map(|token| token.content).collect();
    let base = vocabulary.base();
    let mut tokens = Tokens { tokens: Vec::new(), scores: Vec::new(), kinds: Vec::new() };
    for (id, entry) in vocabulary.by_id(vocabulary.len())?.into_iter().enumerate() {
        let (token, _) = entry.ok_or_else(|| refused(format!("no token has id {id}")))?;
        let kind = match (id < base, special.iter().any(|special| special == token)) {
            (true, _) if byte_of(token).is_some() => BYTE,
            (_, true) => CONTROL,
            (true, false) => NORMAL,
            (false, false) => USER_DEFINED,
        };
        tokens.tokens.push(token.to_owned());
        tokens.scores.push(ADDED_SCORE);
        tokens.kinds.push(kind);
    }
    drop(vocabulary);
    if let Some(size) = request.vocab_size.filter(|size| tokens.tokens.len() as u64 > *size) {
        return Err(refused(format!("{} tokens, {size} are in the embedding", tokens.tokens.len())));
    }
    metadata
        .note("there is no tokenizer.model: every token gets the same score, so llama.cpp merges from left to right");
    tokens.write(sources, request, metadata)
}
