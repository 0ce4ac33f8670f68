//! Splits a text into words with a declared pre-tokenizer.

use std::ops::Range;

use serde_json::Value;

use super::expression::parse;
use super::matching::matches;
use crate::byte_level;

/// The expression of GPT-2, which ByteLevel uses by default.
pub(super) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Nesting of sequences.
const MAX_DEPTH: usize = 8;

/// The words of a text; `None` if a step is unknown.
pub(super) fn words(pre_tokenizer: &Value, text: &str) -> Option<Vec<String>> {
    let mut words = vec![text.to_owned()];
    step(pre_tokenizer, &mut words, 0)?;
    words.retain(|word| !word.is_empty());
    Some(words)
}

fn step(pre_tokenizer: &Value, words: &mut Vec<String>, depth: usize) -> Option<()> {
    if pre_tokenizer.is_null() {
        return Some(());
    }
    let truth = |key: &str, otherwise: bool| pre_tokenizer.get(key).and_then(Value::as_bool).unwrap_or(otherwise);
    match pre_tokenizer.get("type")?.as_str()? {
        "Sequence" if depth < MAX_DEPTH => {
            let steps = pre_tokenizer.get("pretokenizers")?.as_array()?;
            steps.iter().try_for_each(|inner| step(inner, words, depth + 1))
        }
        "Split" => {
            let (pattern, behaviour) = (pre_tokenizer.get("pattern")?, pre_tokenizer.get("behavior")?.as_str()?);
            let node = match (pattern.get("Regex"), pattern.get("String")) {
                (Some(expression), None) => Ok(parse(expression.as_str()?)?),
                (None, Some(literal)) => Err(literal.as_str()?.chars().collect::<Vec<_>>()),
                _ => return None,
            };
            let find = |text: &[char]| match &node {
                Ok(node) => matches(node, text),
                Err(literal) => Some(literally(literal, text)),
            };
            all(words, behaviour, truth("invert", false), find)
        }
        "Digits" => {
            let behaviour = if truth("individual_digits", false) { "Isolated" } else { "Contiguous" };
            all(words, behaviour, false, |text| Some(each(text, char::is_numeric)))
        }
        "Punctuation" => {
            let node = parse(r"[\p{P}$+<=>^`|~]")?;
            let behaviour = pre_tokenizer.get("behavior").and_then(Value::as_str).unwrap_or("Isolated");
            all(words, behaviour, false, |text| matches(&node, text))
        }
        "ByteLevel" => {
            if truth("add_prefix_space", true) {
                words.iter_mut().filter(|word| !word.starts_with(' ')).for_each(|word| word.insert(0, ' '));
            }
            if truth("use_regex", true) {
                let node = parse(GPT2)?;
                all(words, "Isolated", false, |text| matches(&node, text))?;
            }
            words.iter_mut().for_each(|word| *word = byte_level::encoded(word));
            Some(())
        }
        _ => None,
    }
}

/// Splits every word at the matches of `find`.
fn all(
    words: &mut Vec<String>,
    behaviour: &str,
    invert: bool,
    find: impl Fn(&[char]) -> Option<Vec<(usize, usize)>>,
) -> Option<()> {
    let mut cut = Vec::new();
    for word in words.iter() {
        let text: Vec<char> = word.chars().collect();
        for piece in pieces(text.len(), &find(&text)?, behaviour, invert)? {
            cut.push(text.get(piece)?.iter().collect());
        }
    }
    *words = cut;
    Some(())
}

/// The pieces of a text of `length` characters, in which `found` are the separators.
fn pieces(length: usize, found: &[(usize, usize)], behaviour: &str, invert: bool) -> Option<Vec<Range<usize>>> {
    let (mut parts, mut at) = (Vec::new(), 0);
    for &(from, to) in found {
        parts.push((at..from, invert));
        parts.push((from..to, !invert));
        at = to;
    }
    parts.push((at..length, invert));
    parts.retain(|(range, _)| !range.is_empty());
    let mut pieces: Vec<(Range<usize>, bool)> = Vec::new();
    for (range, separates) in parts {
        let joins = match behaviour {
            "Isolated" => false,
            "Removed" if separates => continue,
            "Removed" => false,
            "Contiguous" => pieces.last().is_some_and(|(_, before)| *before == separates),
            "MergedWithPrevious" => separates && pieces.last().is_some_and(|(_, before)| !before),
            "MergedWithNext" => !separates && pieces.last().is_some_and(|(_, before)| *before),
            _ => return None,
        };
        match pieces.last_mut() {
            // A joined piece ends there.
            Some((last, before)) if joins => {
                last.end = range.end;
                *before = if behaviour == "MergedWithNext" { false } else { separates };
            }
            _ => pieces.push((range, separates)),
        }
    }
    Some(pieces.into_iter().map(|(range, _)| range).collect())
}

fn literally(literal: &[char], text: &[char]) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while !literal.is_empty() && at < text.len() {
        match text.get(at..).is_some_and(|rest| rest.starts_with(literal)) {
            true => {
                found.push((at, at + literal.len()));
                at += literal.len();
            }
            false => at += 1,
        }
    }
    found
}

fn each(text: &[char], is_one: fn(char) -> bool) -> Vec<(usize, usize)> {
    text.iter().enumerate().filter(|(_, character)| is_one(**character)).map(|(at, _)| (at, at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(json: &str, text: &str) -> Option<Vec<String>> {
        words(&serde_json::from_str(json).unwrap(), text)
    }

    #[test]
    fn steps_split_as_declared() {
        let split =
            |behaviour: &str| format!(r#"{{"type":"Split","pattern":{{"String":"-"}},"behavior":"{behaviour}"}}"#);
        for (json, wanted) in [
            (split("Isolated"), &["a", "-", "-", "b", "-"][..]),
            (split("Removed"), &["a", "b"]),
            (split("Contiguous"), &["a", "--", "b", "-"]),
            (split("MergedWithPrevious"), &["a-", "-", "b-"]),
            (split("MergedWithNext"), &["a", "-", "-b", "-"]),
        ] {
            assert_eq!(split_text(&json, "a--b-").unwrap(), wanted, "{json}");
        }
        assert_eq!(split_text(r#"{"type":"Digits","individual_digits":true}"#, "a12").unwrap(), ["a", "1", "2"]);
        assert_eq!(split_text(r#"{"type":"Digits"}"#, "a12").unwrap(), ["a", "12"]);
        let bytes = r#"{"type":"ByteLevel","add_prefix_space":true,"use_regex":true}"#;
        assert_eq!(split_text(bytes, "a b").unwrap(), ["\u{120}a", "\u{120}b"]);
        assert_eq!(split_text(r#"{"type":"Whitespace"}"#, "a"), None);
        assert_eq!(split_text("null", "a b").unwrap(), ["a b"]);
    }
}
