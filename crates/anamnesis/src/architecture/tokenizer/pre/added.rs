//! Splits a text at added tokens, before pre-tokenisation.

use crate::architecture::tokenizer::added::Vocabulary;
use crate::architecture::tokenizer::document::AddedToken;

/// A piece of a text.
pub(super) enum Piece<'t> {
    Token(u32),
    Text(&'t str),
}

/// Splits a text at the added tokens that are matched before normalisation, or after it; the leftmost match wins, then
/// the longest.
pub(super) fn split<'t>(text: &'t str, vocabulary: &Vocabulary<'_>, normalized: bool) -> Vec<Piece<'t>> {
    let is_there = |(token, _): &(&AddedToken, u32)| {
        token.normalized == normalized && !token.content.is_empty() && text.contains(&token.content)
    };
    let tokens: Vec<(&AddedToken, u32)> = vocabulary.added().filter(is_there).collect();
    let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let longest = tokens
            .iter()
            .filter(|(token, _)| rest.starts_with(&token.content))
            .max_by_key(|(token, _)| token.content.len());
        let Some((token, id)) = longest else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let end = at + token.content.len();
        let (before, after) = (text.get(begin..at).unwrap_or_default(), text.get(end..).unwrap_or_default());
        let is_word = |character: Option<char>| {
            character.is_some_and(|character| character.is_alphanumeric() || character == '_')
        };
        if token.single_word
            && (is_word(text.get(..at).and_then(|text| text.chars().next_back())) || is_word(after.chars().next()))
        {
            at = end;
            continue;
        }
        let before = if token.lstrip { before.trim_end() } else { before };
        let stripped = if token.rstrip { after.len() - after.trim_start().len() } else { 0 };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Token(*id));
        (begin, at) = (end + stripped, end + stripped);
    }
    pieces.extend(text.get(begin..).filter(|rest| !rest.is_empty()).map(Piece::Text));
    pieces
}
