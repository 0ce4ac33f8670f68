//! The `tokenizer.json` of a SentencePiece vocabulary: merges are the pairs of pieces that concatenate to a piece,
//! ordered by its score.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::document::{Document, template};
use super::vocabulary::{StoredVocabulary, Token};
use crate::architecture::tokenizer::token_type::{CONTROL, NORMAL, UNKNOWN};

const SPACE: &str = "\u{2581}";

pub(super) fn document<'m>(stored: &StoredVocabulary<'m>) -> Document<'m> {
    let prefix = stored.truth("add_space_prefix").unwrap_or(true);
    let replaced = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let steps = [
        Some(json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "})),
        Some(json!({"type": "ByteFallback"})),
        Some(json!({"type": "Fuse"})),
        prefix.then(|| json!({"type": "Strip", "content": " ", "start": 1, "stop": 0})),
    ];
    let steps: Vec<Value> = steps.into_iter().flatten().collect();
    let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let bos = stored.truth("add_bos_token").unwrap_or(true);
    Document {
        added: stored.iter().filter(|token| token.is_added() || token.kind == UNKNOWN).map(as_special).collect(),
        normalizer: match prefix {
            true => json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replaced]}),
            false => replaced,
        },
        pre_tokenizer: if prefix { Value::Null } else { split },
        post_processor: template(stored, bos, stored.truth("add_eos_token").unwrap_or(false)).unwrap_or_default(),
        decoder: json!({"type": "Sequence", "decoders": steps}),
        unknown: unknown(stored).map(|token| token.text),
        byte_fallback: true,
        ignore_merges: false,
        vocab: stored.model_tokens(),
        merges: merges(stored),
    }
}

/// The unknown token is never part of a text, so it is special.
const fn as_special(token: Token<'_>) -> Token<'_> {
    match token.kind {
        UNKNOWN => Token { kind: CONTROL, ..token },
        _ => token,
    }
}

/// The unknown token.
pub(super) fn unknown<'m>(stored: &StoredVocabulary<'m>) -> Option<Token<'m>> {
    let role = stored.role("unknown").map(|(id, _)| id);
    let by_kind = || stored.iter().find(|token| token.kind == UNKNOWN);
    let by_name = || stored.iter().find(|token| token.text == "<unk>");
    stored.iter().find(|token| Some(token.id) == role).or_else(by_kind).or_else(by_name)
}

/// All pairs of pieces that concatenate to a piece; high scores first, then low ids.
fn merges<'m>(stored: &StoredVocabulary<'m>) -> Vec<(&'m str, &'m str)> {
    let ids: HashMap<&str, usize> = stored.iter().map(|token| (token.text, token.id)).collect();
    let mut merges = Vec::new();
    for token in stored.iter().filter(|token| token.kind == NORMAL) {
        let both = |(place, _): (usize, char)| {
            let (left, right) = token.text.split_at_checked(place)?;
            Some((*ids.get(left)?, *ids.get(right)?, left, right))
        };
        let mut ways: Vec<_> = token.text.char_indices().skip(1).filter_map(both).collect();
        ways.sort_by_key(|(left, right, ..)| (*left, *right));
        merges.extend(ways.into_iter().map(|(_, _, left, right)| (token.score, left, right)));
    }
    merges.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    merges.into_iter().map(|(_, left, right)| (left, right)).collect()
}
