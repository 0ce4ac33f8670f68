//! How a vocabulary cuts text into words before anything is merged, which llama.cpp knows by name.
//!
//! Every name stands for code in llama.cpp. The converter finds it by encoding a fixed text and looking up the digest of the
//! ids, so that text is encoded here too, with the expressions that `tokenizer.json` declares. A vocabulary that no digest
//! knows is named by what its expressions do to the text, and by the kind of model it belongs to.

mod added;
mod bpe;
mod category;
mod cut;
mod declared;
mod digests;
mod expression;
mod matching;
mod normal;
mod text;

pub(super) use declared::declaration;
pub(super) use normal::left_out_of_pieces;

use super::added::Vocabulary;
use super::document::Document;
use super::post_processor::around;
use super::wanted::Wanted;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};
use crate::io::sha256;

/// The name of the pre-tokenizer of a vocabulary.
pub(super) fn name(
    document: &Document,
    vocabulary: &Vocabulary<'_>,
    wanted: &Wanted<'_>,
    told: &mut MetadataBuilder,
) -> Result<String> {
    let left_out = normal::left_out(&document.normalizer);
    if let Some(given) = wanted.pre {
        if let Some(kind) = left_out {
            told.note(format!("the normalizer {} of tokenizer.json has no place in GGUF", quoted(&kind)));
        }
        return Ok(given.to_owned());
    }
    let ids = encoded(document, vocabulary);
    let digest = ids.map(|ids| sha256(listed(&ids).as_bytes()));
    if let Some(name) = digest.as_deref().and_then(digests::name) {
        return Ok(name.to_owned());
    }
    if let Some(kind) = left_out {
        let detail = format!(
            "the vocabulary is none that llama.cpp knows, and its normalizer {} has no place in GGUF",
            quoted(&kind)
        );
        return Err(AnamnesisError::unsupported("tokenizer", detail));
    }
    let digest = digest.map_or_else(String::new, |digest| format!(" (its digest is {digest})"));
    match declared::name(document, wanted) {
        Some(name) => {
            told.note(format!("the vocabulary is none that llama.cpp's converter knows{digest}; tokenizer.ggml.pre is \"{name}\" by the pre-tokenizer it declares"));
            Ok(name.to_owned())
        }
        None => {
            let detail = format!("the pre-tokenizer of tokenizer.json is none that llama.cpp has a name for{digest}");
            Err(AnamnesisError::unsupported_model(ModelPart::PreTokenizer, "", detail))
        }
    }
}

/// The ids of the fixed text; `None` where something of the tokenizer is not known.
fn encoded(document: &Document, vocabulary: &Vocabulary<'_>) -> Option<Vec<u32>> {
    let (mut ids, behind) = around(document)?;
    let mut words = Vec::new();
    for piece in added::split(text::TEXT, vocabulary, false) {
        match piece {
            added::Piece::Token(id) => words.push(Err(id)),
            added::Piece::Text(text) => {
                let normal = normal::normalised(&document.normalizer, text)?;
                for piece in added::split(&normal, vocabulary, true) {
                    match piece {
                        added::Piece::Token(id) => words.push(Err(id)),
                        added::Piece::Text(text) => {
                            words.extend(cut::words(&document.pre_tokenizer, text)?.into_iter().map(Ok));
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

/// Ids as a list is written in Python.
fn listed(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("[{}]", ids.join(", "))
}
