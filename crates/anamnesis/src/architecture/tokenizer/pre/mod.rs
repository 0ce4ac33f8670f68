//! Detects the pre-tokenizer of a vocabulary, which llama.cpp identifies by name.
//!
//! Each name selects code in llama.cpp. Its converter determines the name by encoding a fixed text and looking up the
//! digest of the ids, so the same text is encoded here with the expressions of `tokenizer.json`. A vocabulary with an
//! unknown digest is named by how its expressions split the text, and by the architecture.

mod added;
mod bpe;
mod category;
mod declared;
mod digests;
mod expression;
mod matching;
mod normalizer;
mod split;
mod text;

pub(super) use declared::declaration;
pub(super) use normalizer::unsupported_for_sentencepiece;

use super::added::Vocabulary;
use super::document::Document;
use super::post_processor::surrounding_ids;
use super::request::VocabularyRequest;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};
use crate::io::sha256;

/// The name of the pre-tokenizer of a vocabulary.
pub(super) fn name(
    document: &Document,
    vocabulary: &Vocabulary<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<String> {
    let unsupported = normalizer::unsupported(&document.normalizer);
    if let Some(given) = request.pre {
        if let Some(kind) = unsupported {
            metadata.note(format!("the normalizer {} of tokenizer.json cannot be stored in GGUF", quoted(&kind)));
        }
        return Ok(given.to_owned());
    }
    let ids = encoded(document, vocabulary);
    let digest = ids.map(|ids| sha256(listed(&ids).as_bytes()));
    if let Some(name) = digest.as_deref().and_then(digests::name) {
        return Ok(name.to_owned());
    }
    if let Some(kind) = unsupported {
        let detail = format!(
            "llama.cpp does not know the vocabulary, and its normalizer {} cannot be stored in GGUF",
            quoted(&kind)
        );
        return Err(AnamnesisError::unsupported("tokenizer", detail));
    }
    let digest = digest.map_or_else(String::new, |digest| format!(" (its digest is {digest})"));
    match declared::name(document, request) {
        Some(name) => {
            metadata.note(format!("the converter of llama.cpp does not know the vocabulary{digest}; tokenizer.ggml.pre is \"{name}\" by the pre-tokenizer it declares"));
            Ok(name.to_owned())
        }
        None => {
            let detail = format!("llama.cpp has no name for the pre-tokenizer of tokenizer.json{digest}");
            Err(AnamnesisError::unsupported_model(ModelPart::PreTokenizer, "", detail))
        }
    }
}

/// The ids of the fixed text; `None` if a part of the tokenizer is unknown.
fn encoded(document: &Document, vocabulary: &Vocabulary<'_>) -> Option<Vec<u32>> {
    let (mut ids, behind) = surrounding_ids(document)?;
    let mut words = Vec::new();
    for piece in added::split(text::TEXT, vocabulary, false) {
        match piece {
            added::Piece::Token(id) => words.push(Err(id)),
            added::Piece::Text(text) => {
                let normal = normalizer::normalise(&document.normalizer, text)?;
                for piece in added::split(&normal, vocabulary, true) {
                    match piece {
                        added::Piece::Token(id) => words.push(Err(id)),
                        added::Piece::Text(text) => {
                            words.extend(split::words(&document.pre_tokenizer, text)?.into_iter().map(Ok));
                        }
                    }
                }
            }
        }
    }
    let merges = bpe::Merges::of(document, vocabulary, words.iter().filter_map(|word| word.as_deref().ok()));
    for word in &words {
        match word {
            Ok(word) => merges.encode(word, &mut ids),
            Err(id) => ids.push(*id),
        }
    }
    ids.extend(behind);
    Some(ids)
}

/// Ids in the form of a Python list.
fn listed(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("[{}]", ids.join(", "))
}
