//! Writes `tokenizer.model`: the SentencePiece pieces and the trainer settings that readers need.

use super::sentencepiece::unknown;
use super::vocabulary::StoredVocabulary;
use crate::architecture::tokenizer::token_type::{NORMAL, UNKNOWN, UNUSED};

pub(super) fn encode(stored: &StoredVocabulary<'_>) -> Vec<u8> {
    let unknown = unknown(stored).map(|token| token.id);
    // Added tokens after the last piece are not pieces.
    let count = stored.iter().filter(|token| !token.is_listed()).map(|token| token.id + 1).max().unwrap_or(0);
    let mut tokens = stored.iter().filter(|token| token.id < count).peekable();
    let mut model = Vec::new();
    for id in 0..count {
        let (text, score, kind) = match tokens.next_if(|token| token.id == id) {
            Some(token) if Some(id) == unknown => (token.text, 0.0, UNKNOWN),
            Some(token) if token.is_listed() => (token.text, 0.0, token.kind),
            // Only one piece may be of type unknown.
            Some(token) if token.kind == UNKNOWN => (token.text, token.score, NORMAL),
            Some(token) => (token.text, token.score, token.kind),
            None => (stored.tokens.get(id).map(String::as_str).unwrap_or_default(), 0.0, UNUSED),
        };
        let mut piece = Vec::new();
        bytes(1, text.as_bytes(), &mut piece);
        piece.push(2 << 3 | 5);
        piece.extend(score.to_le_bytes());
        number(3, u64::from(kind.unsigned_abs()), &mut piece);
        bytes(1, &piece, &mut model);
    }
    bytes(2, &trainer(stored, count, unknown), &mut model);
    let mut normalizer = Vec::new();
    bytes(1, b"identity", &mut normalizer);
    number(3, u64::from(stored.truth("add_space_prefix").unwrap_or(true)), &mut normalizer);
    number(4, 0, &mut normalizer);
    number(5, 1, &mut normalizer);
    bytes(3, &normalizer, &mut model);
    model
}

/// The trainer settings: BPE with byte fallback.
fn trainer(stored: &StoredVocabulary<'_>, count: usize, unknown: Option<usize>) -> Vec<u8> {
    let mut trainer = Vec::new();
    number(3, 2, &mut trainer);
    number(4, count as u64, &mut trainer);
    number(35, 1, &mut trainer);
    let roles = [(40, unknown), (41, role(stored, "bos")), (42, role(stored, "eos")), (43, role(stored, "padding"))];
    for (field, id) in roles {
        // A missing id is −1.
        number(field, id.filter(|id| *id < count).map_or(u64::MAX, |id| id as u64), &mut trainer);
    }
    for (field, id) in roles {
        let text = id.filter(|id| *id < count).and_then(|id| stored.tokens.get(id));
        if let Some(text) = text {
            bytes(field + 5, text.as_bytes(), &mut trainer);
        }
    }
    trainer
}

fn role(stored: &StoredVocabulary<'_>, role: &str) -> Option<usize> {
    stored.role(role).map(|(id, _)| id)
}

fn number(field: u64, number: u64, into: &mut Vec<u8>) {
    varint(field << 3, into);
    varint(number, into);
}

fn bytes(field: u64, content: &[u8], into: &mut Vec<u8>) {
    varint(field << 3 | 2, into);
    varint(content.len() as u64, into);
    into.extend(content);
}

fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}
