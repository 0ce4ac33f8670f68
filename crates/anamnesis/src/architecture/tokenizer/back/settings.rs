//! Writes `tokenizer_config.json`: special tokens, the chat template, and the added tokens.

use serde_json::{Map, Value, json};

use super::document::added_token_json;
use super::sentencepiece::unknown;
use super::vocabulary::StoredVocabulary;
use crate::catalog::MetadataValue;

/// The names of a role in GGUF and in the file.
const ROLES: [(&str, &str); 6] =
    [("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("seperator", "sep"), ("padding", "pad"), ("mask", "mask")];

pub(super) fn to_json(stored: &StoredVocabulary<'_>, kind: &str) -> Vec<u8> {
    let mut settings = Map::new();
    let mut set = |key: &str, value: Value| drop(settings.insert(key.to_owned(), value));
    // This class uses tokenizer.json unchanged; those of single models replace some of its steps.
    set("tokenizer_class", Value::from("PreTrainedTokenizerFast"));
    set("clean_up_tokenization_spaces", Value::from(false));
    for (role, name) in ROLES {
        if let Some((_, text)) = stored.role(role) {
            set(&format!("{name}_token"), Value::from(text));
        }
    }
    if kind == "llama"
        && stored.role("unknown").is_none()
        && let Some(token) = unknown(stored)
    {
        set("unk_token", Value::from(token.text));
    }
    for name in ["add_bos_token", "add_eos_token"] {
        if let Some(truth) = stored.truth(name) {
            set(name, Value::from(truth));
        }
    }
    if let Some(truth) = stored.truth("add_space_prefix") {
        set("add_prefix_space", Value::from(truth));
    }
    let length =
        stored.entries().find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, value)| value.as_u32());
    if let Some(length) = length {
        set("model_max_length", Value::from(length));
    }
    if let Some(template) = chat_template(stored) {
        set("chat_template", template);
    }
    let listed = stored.iter().filter(|token| if kind == "llama" { token.is_listed() } else { token.is_added() });
    let listed: Map<String, Value> = listed.map(|token| (token.id.to_string(), added_token_json(&token))).collect();
    if !listed.is_empty() {
        set("added_tokens_decoder", Value::Object(listed));
    }
    format!("{:#}\n", Value::Object(settings)).into_bytes()
}

/// One template, or all of them by name.
fn chat_template(stored: &StoredVocabulary<'_>) -> Option<Value> {
    let default = stored.text("tokenizer.chat_template");
    let named = |(key, value): (&str, &MetadataValue)| {
        let name = key.strip_prefix("tokenizer.chat_template.")?;
        Some(json!({"name": name, "template": value.as_string()?}))
    };
    let named: Vec<Value> = stored.entries().filter_map(named).collect();
    match (default, named.is_empty()) {
        (default, true) => default.map(Value::from),
        (None, false) => Some(Value::Array(named)),
        (Some(default), false) => {
            let first = json!({"name": "default", "template": default});
            Some(Value::Array(std::iter::once(first).chain(named).collect()))
        }
    }
}
