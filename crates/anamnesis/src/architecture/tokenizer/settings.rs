//! `tokenizer_config.json`: the special tokens, and the class that loads the vocabulary.

use serde_json::{Map, Value};

use super::document::AddedToken;
use crate::error::{AnamnesisError, Result, quoted};
use crate::json;

/// The roles of special tokens, in the order they are read.
pub(super) const ROLES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// The object of the file; empty without a file.
#[derive(Debug, Default, Clone)]
pub(super) struct Settings(pub(super) Map<String, Value>);

impl Settings {
    pub(super) fn read(text: Option<&[u8]>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::default()) };
        match json::from_slice(text) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(AnamnesisError::parse("tokenizer_config.json is not an object")),
            Err(error) => Err(AnamnesisError::parse(format!("tokenizer_config.json: {error}"))),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Whether the tokenizer class is that of GPT-2, as in Phi 4.
    pub(super) fn is_gpt2(&self) -> bool {
        self.class() == Some("GPT2Tokenizer")
    }

    /// The tokenizer class, without the suffix `Fast`.
    pub(super) fn class(&self) -> Option<&str> {
        let class = self.0.get("tokenizer_class")?.as_str()?;
        Some(class.strip_suffix("Fast").unwrap_or(class))
    }

    /// The tokens of `added_tokens_decoder` by id.
    pub(super) fn added_tokens(&self) -> Result<Vec<AddedToken>> {
        let entries = match self.0.get("added_tokens_decoder") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                return Err(AnamnesisError::parse("tokenizer_config.json: added_tokens_decoder is not an object"));
            }
        };
        let mut tokens = Vec::with_capacity(entries.len());
        for (id, entry) in entries {
            let token = entry.as_object().and_then(AddedToken::from_object).zip(id.parse::<u32>().ok());
            let (mut token, id) = token.ok_or_else(|| {
                let reason = format!("tokenizer_config.json: added token {} has no id or no content", quoted(id));
                AnamnesisError::parse(reason)
            })?;
            token.id = Some(id);
            tokens.push(token);
        }
        tokens.sort_by_key(|token| token.id);
        Ok(tokens)
    }

    /// The special tokens, each as a string or as an object with its options.
    pub(super) fn named(&self) -> Vec<AddedToken> {
        let roles = ROLES.iter().filter_map(|role| self.0.get(&format!("{role}_token")));
        let own = |(key, value): (&String, &Value)| {
            let is_role = ROLES.iter().any(|role| key.strip_suffix("_token") == Some(role));
            (key.ends_with("_token") && !is_role && value.is_string()).then(|| value.clone())
        };
        let own: Vec<Value> = self.0.iter().filter_map(own).collect();
        roles.chain(self.extra()).chain(&own).filter_map(special).collect()
    }

    /// Further special tokens.
    fn extra(&self) -> Vec<&Value> {
        let filled = |key: &str| match self.0.get(key) {
            Some(Value::Array(items)) if !items.is_empty() => Some(items.iter().collect()),
            Some(Value::Object(items)) if !items.is_empty() => Some(items.values().collect()),
            _ => None,
        };
        filled("extra_special_tokens").or_else(|| filled("additional_special_tokens")).unwrap_or_default()
    }
}

/// A special token in a setting.
fn special(value: &Value) -> Option<AddedToken> {
    match value {
        Value::String(content) => Some(AddedToken::special(content)),
        Value::Object(object) => Some(AddedToken { special: true, ..AddedToken::from_object(object)? }),
        _ => None,
    }
}
