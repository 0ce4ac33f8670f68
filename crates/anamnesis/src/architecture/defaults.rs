//! The defaults that transformers' configuration classes have for keys that `config.json` leaves out.

use serde_json::{Map, Value};

use super::language_model;

/// The default of a configuration key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DefaultValue {
    Count(u64),
    Real(f64),
    Flag(bool),
    /// The value of another key, also for `null`.
    Same(&'static str),
    /// One key divided by another, also for `null`.
    Quotient(&'static str, &'static str),
    /// None, where the shared defaults have one.
    Absent,
}

impl DefaultValue {
    /// The value of a default that does not depend on other keys.
    pub(super) fn constant(self) -> Option<Value> {
        match self {
            Self::Count(count) => Some(Value::from(count)),
            Self::Real(real) => Some(Value::from(real)),
            Self::Flag(flag) => Some(Value::from(flag)),
            Self::Same(_) | Self::Quotient(..) | Self::Absent => None,
        }
    }
}

pub(crate) use DefaultValue::{Absent, Count, Flag, Quotient, Real, Same};

/// A configuration key with its default.
pub(crate) type ClassDefault = (&'static str, DefaultValue);

/// The defaults of `LlamaConfig` that most decoders share; a class lists its differences after them.
pub(crate) const BASE: &[ClassDefault] = &[
    ("vocab_size", Count(32000)),
    ("hidden_size", Count(4096)),
    ("intermediate_size", Count(11008)),
    ("num_hidden_layers", Count(32)),
    ("num_attention_heads", Count(32)),
    ("num_key_value_heads", Same("num_attention_heads")),
    ("max_position_embeddings", Count(2048)),
    ("rms_norm_eps", Real(1e-6)),
    ("rope_theta", Real(10000.0)),
];

/// The defaults of several lists; a later list overrides an earlier one.
pub(super) fn merged(lists: &[&[ClassDefault]]) -> Vec<ClassDefault> {
    let mut merged: Vec<ClassDefault> = Vec::new();
    for &(key, default) in lists.iter().copied().flatten() {
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = default,
            None => merged.push((key, default)),
        }
    }
    merged.retain(|(_, default)| *default != DefaultValue::Absent);
    merged
}

/// The defaults of transformers' configuration classes by model type, written by `reference/class_defaults.py`.
static BY_MODEL_TYPE: &str = include_str!("class_defaults.txt");

/// The words of a model type's line.
fn line(model_type: &str) -> Option<&'static str> {
    BY_MODEL_TYPE.lines().find_map(|line| line.strip_prefix(model_type)?.strip_prefix(' '))
}

/// The defaults of a configuration by its model type: those of its language model, if it is multimodal. Types that
/// transformers does not know have none.
pub(super) fn of_model_type(raw: &Map<String, Value>) -> Vec<ClassDefault> {
    let named = |map: &Map<String, Value>| map.get("model_type").and_then(Value::as_str).map(str::to_owned);
    let nested = language_model::nested(raw).find_map(named);
    let Some(own) = named(raw) else { return Vec::new() };
    let Some(mut words) = line(&own) else { return Vec::new() };
    if let Some(text) = words.strip_prefix("> ") {
        words = nested.as_deref().and_then(line).or_else(|| line(text)).unwrap_or("");
    }
    words.split(' ').filter_map(default).collect()
}

/// The defaults of a model type: those of the language model, if it is multimodal.
pub(super) fn of_class(model_type: &str) -> Vec<ClassDefault> {
    let words = line(model_type).unwrap_or("");
    let words = words.strip_prefix("> ").map_or(words, |text| line(text).unwrap_or(""));
    words.split(' ').filter_map(default).collect()
}

/// A default of the table: `key=value`.
fn default(word: &'static str) -> Option<ClassDefault> {
    let (key, value) = word.split_once('=')?;
    let value = match value {
        "true" => Flag(true),
        "false" => Flag(false),
        _ if value.starts_with(|first: char| first.is_ascii_alphabetic()) => match value.split_once('/') {
            Some((whole, parts)) => Quotient(whole, parts),
            None => Same(value),
        },
        _ => match value.parse() {
            Ok(count) => Count(count),
            Err(_) => Real(value.parse().ok()?),
        },
    };
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_a_default() {
        for line in BY_MODEL_TYPE.lines() {
            let words = line.split_once(' ').unwrap().1;
            match words.strip_prefix("> ") {
                Some(text) => assert!(super::line(text).is_some(), "{line}"),
                None => assert!(words.split(' ').all(|word| default(word).is_some()), "{line}"),
            }
        }
    }
}
