//! The configuration of a model: `config.json` with the defaults of its class.

use serde_json::{Map, Value};

use super::defaults::{ClassDefault, DefaultValue};
use super::rope::Rope;
use super::value::{as_count, as_real, as_reals, missing, unexpected};
use crate::error::{AnamnesisError, Result, quoted};

/// Objects with the configuration of a multimodal model's language model.
const NESTED: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// The configuration of one model.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    values: Map<String, Value>,
    rope: Rope,
    /// The number of tokens in the vocabulary, once it is read.
    pub(crate) vocabulary: Option<u64>,
}

/// The name of the class that a configuration is for.
pub(crate) fn class_of(raw: &Map<String, Value>) -> Option<&str> {
    let named = |map: &'_ Map<String, Value>| Some(map.get("architectures")?.as_array()?.first()?.as_str()?.to_owned());
    let nested = raw.get("text_config").and_then(Value::as_object);
    let place = nested.filter(|map| named(map).is_some()).unwrap_or(raw);
    place.get("architectures")?.as_array()?.first()?.as_str()
}

/// The members of a configuration, with those of a multimodal model's language model in their place.
pub(crate) fn flattened(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut values = raw.clone();
    let thinker = raw.get("thinker_config").and_then(|thinker| thinker.get("text_config"));
    for nested in NESTED.iter().filter_map(|key| raw.get(*key)).chain(thinker).filter_map(Value::as_object) {
        values.extend(nested.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    values
}

impl Config {
    /// A configuration with the defaults of its class.
    pub(crate) fn new(raw: &Map<String, Value>, defaults: &[ClassDefault]) -> Result<Self> {
        let mut values = flattened(raw);
        let set = |values: &Map<String, Value>, key: &str| values.contains_key(key);
        for (key, default) in defaults {
            let value = match default {
                DefaultValue::Count(count) if !set(&values, key) => Value::from(*count),
                DefaultValue::Real(real) if !set(&values, key) => Value::from(*real),
                DefaultValue::Flag(flag) if !set(&values, key) => Value::from(*flag),
                _ => continue,
            };
            values.insert((*key).to_owned(), value);
        }
        let mut config = Self { rope: Rope::of(&values)?, values, vocabulary: None };
        for (key, default) in defaults {
            let value = match default {
                _ if config.get(key).is_some() => None,
                DefaultValue::Same(other) => config.get(other).cloned(),
                DefaultValue::Quotient(whole, parts) => config.quotient(whole, parts)?.map(Value::from),
                _ => None,
            };
            if let Some(value) = value {
                config.values.insert((*key).to_owned(), value);
            }
        }
        Ok(config)
    }

    /// A value that is not `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    pub(crate) const fn rope(&self) -> &Rope {
        &self.rope
    }

    /// The first of these keys that has a value, as a count.
    pub(crate) fn count(&self, keys: &[&str]) -> Result<Option<u64>> {
        let found = keys.iter().find_map(|key| Some((*key, self.get(key)?)));
        found.map(|(key, value)| as_count(key, value)).transpose()
    }

    /// The count of a required key.
    pub(crate) fn needed(&self, key: &str) -> Result<u64> {
        self.count(&[key])?.ok_or_else(|| missing(key))
    }

    /// The count of a required key that must not be zero.
    pub(crate) fn divisor(&self, key: &str) -> Result<u64> {
        match self.needed(key)? {
            0 => Err(AnamnesisError::parse(format!("config.json: {} is 0", quoted(key)))),
            count => Ok(count),
        }
    }

    /// The first of these keys that has a value, as a number.
    pub(crate) fn real(&self, keys: &[&str]) -> Result<Option<f64>> {
        let found = keys.iter().find_map(|key| Some((*key, self.get(key)?)));
        found.map(|(key, value)| as_real(key, value)).transpose()
    }

    /// A key that is true or false.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let wrong = |value: &Value| unexpected(key, value, "true or false");
        self.get(key).map(|value| value.as_bool().ok_or_else(|| wrong(value))).transpose()
    }

    /// A key that is text.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        let wrong = |value: &Value| unexpected(key, value, "text");
        self.get(key).map(|value| value.as_str().ok_or_else(|| wrong(value))).transpose()
    }

    /// A key that is a list of numbers.
    pub(crate) fn reals(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.get(key).map(|value| as_reals(key, value)).transpose()
    }

    /// One count divided by another, if both are set.
    fn quotient(&self, whole: &str, parts: &str) -> Result<Option<u64>> {
        let (Some(_), Some(_)) = (self.get(whole), self.get(parts)) else { return Ok(None) };
        Ok(Some(self.needed(whole)? / self.divisor(parts)?))
    }

    /// `head_dim`, or the hidden size divided by the number of heads.
    pub(crate) fn head_size(&self) -> Result<u64> {
        match self.count(&["head_dim"])? {
            Some(size) => Ok(size),
            None => self.share_of_width(),
        }
    }

    /// The hidden size divided by the number of heads.
    pub(crate) fn share_of_width(&self) -> Result<u64> {
        Ok(self.needed("hidden_size")? / self.divisor("num_attention_heads")?)
    }
}
