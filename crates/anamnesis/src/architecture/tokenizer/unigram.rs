//! Unigram vocabularies of SentencePiece: T5, and XLM-RoBERTa with its special tokens first.

use serde_json::Value;

use super::added::{Vocabulary, bounded, refused};
use super::document::Document;
use super::request::VocabularyRequest;
use super::sentencepiece::{ModelSettings, Piece, Tokens, pieces};
use super::sources::{PIECES, Sources};
use super::special::SpecialTokens;
use super::token_type::{CONTROL, NORMAL, UNKNOWN, USER_DEFINED};
use super::word_piece;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result};

/// The file of T5's pieces, if there is no `tokenizer.model`.
const SPIECE: &str = "spiece.model";
/// The file of XLM-RoBERTa's pieces.
const XLM_PIECES: &str = "sentencepiece.bpe.model";

/// Writes the unigram vocabulary of T5; a BPE model is written as such.
pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let (name, model) = match (sources.files.read(PIECES)?, sources.files.read(SPIECE)?) {
        (Some(model), _) => (PIECES, model),
        (None, Some(model)) => (SPIECE, model),
        (None, None) => {
            let detail = format!("there is no {PIECES} or {SPIECE}, which has the vocabulary");
            return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
        }
    };
    let within = |error: AnamnesisError| error.within(name);
    let settings = ModelSettings::read(&model).map_err(within)?;
    if settings.model_type == 2 && name == PIECES {
        return super::sentencepiece::write(&model, sources, request, metadata);
    }
    let mut tokens = Tokens::new(pieces(&model).map_err(within)?, request.size())?;
    tokens.put_added(sources, metadata)?;
    let end = tokens.write_list("t5", request, metadata);
    metadata.truth("tokenizer.ggml.add_space_prefix", settings.add_dummy_prefix);
    metadata.truth("tokenizer.ggml.remove_extra_whitespaces", settings.remove_extra_whitespaces);
    write_charsmap(settings.charsmap, metadata);
    write_special(sources, request, end, metadata)
}

fn write_charsmap(charsmap: &[u8], metadata: &mut MetadataBuilder) {
    metadata.array("tokenizer.ggml.precompiled_charsmap", MetadataArray::U8(charsmap.to_vec()));
}

fn write_special(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    end: Option<u32>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let mut special = SpecialTokens::read(sources.document.as_ref(), &sources.settings, request.config, end)?;
    special.chat_template = sources.chat_template(metadata)?;
    special.write(metadata)
}

/// Writes the vocabulary of XLM-RoBERTa.
pub(super) fn write_xlm_roberta(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let (tokens, prefix, whitespaces, charsmap) = match (sources.files.read(XLM_PIECES)?, &sources.document) {
        (Some(model), _) => {
            let within = |error: AnamnesisError| error.within(XLM_PIECES);
            let settings = ModelSettings::read(&model).map_err(within)?;
            let tokens = shifted(pieces(&model).map_err(within)?, request)?;
            let charsmap = settings.charsmap.to_vec();
            (tokens, settings.add_dummy_prefix, settings.remove_extra_whitespaces, charsmap)
        }
        (None, Some(document)) => {
            let charsmap = document.normalizer.get("precompiled_charsmap").and_then(Value::as_str).unwrap_or("");
            let prefix = word_piece::flag(sources, "add_prefix_space").unwrap_or(true);
            let whitespaces = word_piece::flag(sources, "clean_up_tokenization_spaces").unwrap_or(false);
            let charsmap = base64(charsmap).ok_or_else(|| refused("precompiled_charsmap is not base64".to_owned()))?;
            (listed(document, sources, request)?, prefix, whitespaces, charsmap)
        }
        (None, None) => {
            let detail = format!("there is no {XLM_PIECES} or tokenizer.json, which has the vocabulary");
            return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
        }
    };
    let end = tokens.write_list("t5", request, metadata);
    metadata.truth("tokenizer.ggml.add_space_prefix", prefix);
    metadata.number("tokenizer.ggml.token_type_count", word_piece::token_types(request)?);
    metadata.truth("tokenizer.ggml.remove_extra_whitespaces", whitespaces);
    write_charsmap(&charsmap, metadata);
    write_special(sources, request, end, metadata)
}

/// Pieces as fairseq counts them: four special tokens, then the pieces from the fourth on without the last id.
fn shifted(pieces: Vec<Piece>, request: &VocabularyRequest<'_>) -> Result<Tokens> {
    let size = request.vocab_size.unwrap_or(0).max(pieces.len() as u64);
    let mut tokens = Tokens::new(pieces, Some(size))?;
    tokens.tokens.pop();
    tokens.scores.pop();
    tokens.kinds.pop();
    let first = [("<s>", CONTROL), ("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN)];
    let rest = tokens.tokens.len().min(3);
    tokens.tokens.splice(..rest, first.iter().map(|(token, _)| (*token).to_owned()));
    tokens.scores.splice(..rest, first.iter().map(|_| 0.0));
    tokens.kinds.splice(..rest, first.iter().map(|(_, kind)| *kind));
    Ok(tokens)
}

/// The pieces of `tokenizer.json`.
fn listed(document: &Document, sources: &Sources<'_>, request: &VocabularyRequest<'_>) -> Result<Tokens> {
    let scores = &document.model.scores;
    if scores.is_empty() {
        return Err(refused("its model has no list of pieces with scores".to_owned()));
    }
    let vocabulary = Vocabulary::new(document, &sources.settings)?;
    let unknown = sources.settings.get("unk_token").and_then(Value::as_str);
    let unknown = unknown.and_then(|token| vocabulary.added_id(token)).or(document.model.unk_id).unwrap_or(3);
    let named: Vec<String> = sources.settings.named().into_iter().map(|token| token.content).collect();
    let count = document.model.vocab.len();
    let size = bounded(request.vocab_size.unwrap_or(0).max(count as u64))?;
    let mut tokens = Tokens::new(Vec::new(), Some(size as u64))?;
    for (token, id) in &document.model.vocab {
        let place = *id as usize;
        let kind = match vocabulary.added_id(token) {
            _ if *id == unknown => UNKNOWN,
            Some(_) if named.contains(token) => CONTROL,
            Some(_) => USER_DEFINED,
            None => NORMAL,
        };
        if let (Some(into), Some(score), Some(old), Some(&value)) =
            (tokens.tokens.get_mut(place), tokens.scores.get_mut(place), tokens.kinds.get_mut(place), scores.get(place))
        {
            (*into, *score, *old) = (token.clone(), value, kind);
        }
    }
    Ok(tokens)
}

/// The bytes of base64 text with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| -> Option<u32> {
        Some(match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for byte in group {
            bits = bits << 6 | value(*byte)?;
        }
        match group.len() {
            4 => bytes.extend_from_slice(&bits.to_be_bytes()[1..]),
            3 => bytes.extend_from_slice(&(bits >> 2).to_be_bytes()[2..]),
            2 => bytes.push((bits >> 4) as u8),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_text_is_decoded() {
        for (text, bytes) in
            [("", &b""[..]), ("TQ==", b"M"), ("TWE=", b"Ma"), ("TWFu", b"Man"), ("/+8A", b"\xff\xef\0")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes));
        }
        assert!(base64("T").is_none() && base64("T*==").is_none());
    }
}
