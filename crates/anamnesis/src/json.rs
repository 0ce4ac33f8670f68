//! JSON as written by Python, with the literals `NaN`, `Infinity` and `-Infinity`, which JSON lacks.
//!
//! The text is made strict by replacing each literal with a string of the same length. Offsets do not change, and a
//! number parsed there is a type error.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Python's literals and their replacements.
const TOKENS: [(&[u8], &[u8]); 3] = [(b"-Infinity", b"\"-inf\"   "), (b"Infinity", b"\"inf\"   "), (b"NaN", b"\"N\"")];

/// Parses a value.
pub(crate) fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&strict(text))
}

/// The text with every literal that JSON lacks replaced by a string of the same length.
pub(crate) fn strict(text: &[u8]) -> Cow<'_, [u8]> {
    let mut strict = Cow::Borrowed(text);
    let (mut at, mut in_string) = (0, false);
    while let Some(&byte) = text.get(at) {
        let token = match (in_string, byte) {
            (true, b'\\') => {
                at += 2;
                continue;
            }
            (_, b'"') => {
                in_string = !in_string;
                None
            }
            (false, b'-' | b'I' | b'N') => TOKENS.iter().find(|(token, _)| is_at(text, at, token)),
            _ => None,
        };
        if let Some((token, string)) = token
            && let Some(place) = strict.to_mut().get_mut(at..at + token.len())
        {
            place.copy_from_slice(string);
        }
        at += token.map_or(1, |(token, _)| token.len());
    }
    strict
}

/// Whether this token is at `at`, delimited on both sides.
fn is_at(text: &[u8], at: usize, token: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(byte));
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    text.get(at..).is_some_and(|rest| rest.starts_with(token))
        && !is_word(before)
        && !is_word(text.get(at + token.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn non_json_literals_are_read_as_strings_of_the_same_length() {
        let text = br#"{"limit": [0.0, Infinity], "low":-Infinity,"x":NaN , "NaN": "a \" NaN, Infinity", "n": null}"#;
        let strict = strict(text);
        assert_eq!(strict.len(), text.len());
        let wanted = json!({"limit": [0.0, "inf"], "low": "-inf", "x": "N", "NaN": "a \" NaN, Infinity", "n": null});
        assert_eq!(serde_json::from_slice::<Value>(&strict).unwrap(), wanted);
        assert_eq!(from_slice::<Value>(b"[NaN,NaN]").unwrap(), json!(["N", "N"]));
    }

    #[test]
    fn other_words_stay_errors() {
        for text in
            ["[NaNs]", "[-NaN]", "[Infinity1]", "[+Infinity]", "[xNaN]", "[nan]", "[inf]", "[--Infinity]", "[1NaN]"]
        {
            assert!(from_slice::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn strict_text_is_not_copied() {
        for text in ["", "{\"a\": [1, -2, \"NaN\\", "\\", "\"\\\"Infinity"] {
            assert!(matches!(strict(text.as_bytes()), Cow::Borrowed(_)), "{text}");
        }
    }
}
