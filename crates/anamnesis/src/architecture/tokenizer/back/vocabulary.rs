//! The vocabulary stored in the keys of GGUF.

use crate::architecture::tokenizer::sentencepiece::ADDED_SCORE;
use crate::architecture::tokenizer::token_type::{CONTROL, NORMAL, UNUSED, USER_DEFINED};
use crate::catalog::{Metadata, MetadataArray, MetadataValue};
use crate::error::{AnamnesisError, Result};

/// The `tokenizer.ggml.*` arrays.
pub(super) struct StoredVocabulary<'m> {
    metadata: &'m Metadata,
    pub(super) tokens: &'m [String],
    kinds: Option<&'m [i32]>,
    scores: Option<&'m [f32]>,
    pub(super) merges: &'m [String],
}

/// A token with its id.
#[derive(Clone, Copy)]
pub(super) struct Token<'m> {
    pub(super) id: usize,
    pub(super) text: &'m str,
    pub(super) kind: i32,
    pub(super) score: f32,
}

impl Token<'_> {
    /// Whether it is matched in a text before merging.
    pub(super) const fn is_added(&self) -> bool {
        matches!(self.kind, CONTROL | USER_DEFINED)
    }

    /// Whether it came from a list of added tokens, not from the SentencePiece pieces.
    pub(super) fn is_listed(&self) -> bool {
        self.is_added() && self.score == ADDED_SCORE
    }
}

impl<'m> StoredVocabulary<'m> {
    pub(super) fn read(metadata: &'m Metadata) -> Result<Self> {
        let array = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}")).and_then(MetadataValue::as_array);
        let tokens = array("tokens").and_then(MetadataArray::as_string_slice);
        let tokens = tokens.ok_or_else(|| refused("tokenizer.ggml.tokens is not a list of strings".to_owned()))?;
        let kinds = array("token_type").and_then(MetadataArray::as_i32_slice);
        let scores = array("scores").and_then(MetadataArray::as_f32_slice);
        for (name, length) in [("token_type", kinds.map(<[_]>::len)), ("scores", scores.map(<[_]>::len))] {
            if let Some(length) = length.filter(|length| *length != tokens.len()) {
                return Err(refused(format!("tokenizer.ggml.{name} has {length} items for {} tokens", tokens.len())));
            }
        }
        let merges = array("merges").and_then(MetadataArray::as_string_slice).unwrap_or_default();
        let mut known = std::collections::HashSet::with_capacity(tokens.len());
        if let Some(twice) = tokens.iter().find(|token| !known.insert(token.as_str())) {
            return Err(refused(format!("token {} appears twice", crate::error::quoted(twice))));
        }
        Ok(Self { metadata, tokens, kinds, scores, merges })
    }

    /// The tokens in the order of their ids, without the padding.
    pub(super) fn iter(&self) -> impl Iterator<Item = Token<'m>> + Clone + '_ {
        let token = |(id, text): (usize, &'m String)| Token {
            id,
            text,
            kind: self.kinds.and_then(|kinds| kinds.get(id)).copied().unwrap_or(NORMAL),
            score: self.scores.and_then(|scores| scores.get(id)).copied().unwrap_or(0.0),
        };
        self.tokens.iter().enumerate().map(token).filter(|token| token.kind != UNUSED)
    }

    /// The tokens of the model vocabulary. Added tokens at the end get consecutive ids from their loader; if their ids
    /// differ from that, they are included here.
    pub(super) fn model_tokens(&self) -> Vec<Token<'m>> {
        let end = self.iter().filter(|token| !token.is_added()).map(|token| token.id + 1).max().unwrap_or(0);
        let model_tokens: Vec<Token<'m>> = self.iter().filter(|token| token.id < end).collect();
        let mut behind = self.iter().filter(|token| token.id >= end).enumerate();
        match behind.all(|(place, token)| token.id == model_tokens.len() + place) {
            true => model_tokens,
            false => self.iter().collect(),
        }
    }

    /// Whether the scores differ from the default.
    pub(super) fn has_scores(&self) -> bool {
        self.scores.is_some_and(|scores| scores.iter().any(|score| *score != ADDED_SCORE))
    }

    pub(super) fn text(&self, key: &str) -> Option<&'m str> {
        self.metadata.get(key).and_then(MetadataValue::as_string)
    }

    pub(super) fn truth(&self, key: &str) -> Option<bool> {
        self.metadata.get(&format!("tokenizer.ggml.{key}")).and_then(MetadataValue::as_bool)
    }

    /// The token of a role, by its name in GGUF. A normal token has no role, even if a default id refers to it.
    pub(super) fn role(&self, role: &str) -> Option<(usize, &'m str)> {
        let id = self.metadata.get(&format!("tokenizer.ggml.{role}_token_id"))?.as_u32()? as usize;
        let is_normal = self.kinds.and_then(|kinds| kinds.get(id)).is_some_and(|kind| *kind == NORMAL);
        Some((id, self.tokens.get(id).filter(|_| !is_normal)?.as_str()))
    }

    /// Keys with their values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'m str, &'m MetadataValue)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value))
    }
}

fn refused(reason: String) -> AnamnesisError {
    AnamnesisError::parse(reason)
}
