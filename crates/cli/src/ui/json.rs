//! Documents for programs: one per run, with the version of their shape.

use serde_json::{Value, json};

/// Raised when a field changes its meaning or goes away; new fields leave it as it is.
const SCHEMA: u32 = 1;

/// `document`, an object, with the version of its shape and the command it answers.
pub(crate) fn versioned(command: &str, mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("schema".to_owned(), SCHEMA.into());
        fields.insert("command".to_owned(), command.into());
    }
    document
}

/// What went wrong.
pub(crate) fn failure(kind: &str, message: &str) -> Value {
    json!({ "schema": SCHEMA, "error": { "kind": kind, "message": message } })
}

/// A document on one line, with everything escaped that could steer a terminal or turn its text around.
pub(crate) fn line(document: &Value) -> String {
    let text = document.to_string();
    if !text.contains(steers) {
        return text;
    }
    // Such characters stand inside strings only, where an escape means the same.
    let escaped = |character: char| match steers(character) {
        true => format!("\\u{:04x}", u32::from(character)),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Control characters, separators of lines, and marks that change the direction of text.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Items by their texts.
pub(crate) fn texts<T: ToString>(items: &[T]) -> Value {
    items.iter().map(T::to_string).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_the_same_without_what_steers_a_terminal() {
        let document = json!({ "name": "a\u{7f}\u{9b}2J\u{202e}gpj.\u{2066}\u{2028}\u{1b}ä" });
        let text = line(&document);
        assert_eq!(text, r#"{"name":"a\u007f\u009b2J\u202egpj.\u2066\u2028\u001bä"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }
}
