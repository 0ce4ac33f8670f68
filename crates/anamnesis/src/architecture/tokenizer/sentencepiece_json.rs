//! SentencePiece vocabularies that exist only in `tokenizer.json`, without scores.

use serde_json::Value;

use super::added::{Vocabulary, refused};
use super::class;
use super::document::Document;
use super::pre;
use super::request::VocabularyRequest;
use super::sentencepiece::{ADDED_SCORE, Tokens};
use super::sources::Sources;
use super::special::SpecialTokens;
use super::token_type::{BYTE, CONTROL, NORMAL, USER_DEFINED, byte_of};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, Result, quoted};

/// Whether the document has a SentencePiece vocabulary.
pub(super) fn has_pieces(document: &Document) -> bool {
    let model = &document.model;
    let falls_back = model.byte_fallback;
    let is_llama3 = model.ignore_merges && !falls_back.unwrap_or(true);
    let is_sequence = document.decoder.get("type").and_then(Value::as_str) == Some("Sequence");
    model.kind.as_deref() == Some("BPE") && !is_llama3 && falls_back.unwrap_or(false) && is_sequence
}

/// Tokens of Gemma 4 that a reader sees, though they are special.
const VISIBLE: [&str; 7] =
    ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"];

/// Writes the vocabulary of Gemma 4, with its merges.
pub(super) fn write_with_merges(
    sources: &mut Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(mut document) = sources.document.take().filter(has_pieces) else {
        return Err(refused(
            "there is no SentencePiece vocabulary with byte fallback, which this model needs".to_owned(),
        ));
    };
    let mut tokens = tokens(&document, sources, request)?;
    for (kind, token) in tokens.kinds.iter_mut().zip(&tokens.tokens) {
        if VISIBLE.contains(&token.as_str()) {
            *kind = USER_DEFINED;
        }
    }
    metadata.text("tokenizer.ggml.model", "gemma4");
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens.tokens));
    metadata.array("tokenizer.ggml.scores", MetadataArray::F32(tokens.scores));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(tokens.kinds));
    let merges = std::mem::take(&mut document.model.merges).into_iter().map(|merge| merge.0).collect();
    metadata.array("tokenizer.ggml.merges", MetadataArray::String(merges));
    let mut special = SpecialTokens::read(Some(&document), &sources.settings, request.config, None)?;
    special.chat_template = sources.chat_template(metadata)?;
    special.write(metadata)?;
    metadata.truth("tokenizer.ggml.add_space_prefix", false);
    metadata.truth("tokenizer.ggml.add_bos_token", true);
    Ok(())
}

pub(super) fn write(
    document: &Document,
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let mut tokens = tokens(document, sources, request)?;
    if request.rules.unscored {
        tokens.scores.clear();
        return tokens.write(sources, request, metadata);
    }
    metadata
        .note("there is no tokenizer.model: every token gets the same score, so llama.cpp merges from left to right");
    tokens.write(sources, request, metadata)
}

/// The tokens of a document.
fn tokens(document: &Document, sources: &Sources<'_>, request: &VocabularyRequest<'_>) -> Result<Tokens> {
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
        let (token, added) = entry.ok_or_else(|| refused(format!("no token has id {id}")))?;
        let kind = match (id < base, special.iter().any(|special| special == token)) {
            _ if request.rules.unscored => match added {
                _ if byte_of(token).is_some() => BYTE,
                Some(added) if added.special => CONTROL,
                Some(_) => USER_DEFINED,
                None => NORMAL,
            },
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
    Ok(tokens)
}
