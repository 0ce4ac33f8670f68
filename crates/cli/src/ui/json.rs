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

/// Items by their texts.
pub(crate) fn texts<T: ToString>(items: &[T]) -> Value {
    items.iter().map(T::to_string).collect::<Vec<_>>().into()
}
