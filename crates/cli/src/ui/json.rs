//! JSON documents for programs: one per run, with a schema version.

use serde_json::{Value, json};

/// Incremented when a field is removed or changes its meaning; new fields do not change it.
const SCHEMA: u32 = 1;

/// Adds schema version and command to `document`, an object.
pub(crate) fn versioned(command: &str, mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("schema".to_owned(), SCHEMA.into());
        fields.insert("command".to_owned(), command.into());
    }
    document
}

/// A failure.
pub(crate) fn failure(kind: &str, message: &str) -> Value {
    json!({ "schema": SCHEMA, "error": { "kind": kind, "message": message } })
}

/// A document on one line, with all characters escaped that affect a terminal or the text direction.
pub(crate) fn line(document: &Value) -> String {
    let text = document.to_string();
    if !text.contains(affects_terminal) {
        return text;
    }
    // These characters occur inside strings only, where escapes are equivalent.
    let escaped = |character: char| match affects_terminal(character) {
        true => format!("\\u{:04x}", u32::from(character)),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Control characters, line separators and bidirectional marks.
fn affects_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Items as strings.
pub(crate) fn strings<T: ToString>(items: &[T]) -> Value {
    items.iter().map(T::to_string).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_equivalent_without_control_characters() {
        let document = json!({ "name": "a\u{7f}\u{9b}2J\u{202e}gpj.\u{2066}\u{2028}\u{1b}ä" });
        let text = line(&document);
        assert_eq!(text, r#"{"name":"a\u007f\u009b2J\u202egpj.\u2066\u2028\u001bä"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }
}
