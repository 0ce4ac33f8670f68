//! The hyperparameters of a model, from `config.json` or from the metadata of a GGUF file.

use serde_json::{Map, Value};

use crate::architecture::language_model::{class_of, flattened};
use crate::catalog::{Metadata, MetadataArray, MetadataValue};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::json;

/// Configuration keys for the number of layers: those of the converters, then those of other classes.
pub(super) const LAYER_KEYS: &[&str] =
    &["num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_transformer_layers", "num_decoder_layers"];

/// Where the hyperparameters of a model are read from.
#[derive(Debug)]
pub(super) enum Settings {
    /// A configuration, and its members with those of the language model in their place.
    Json { raw: Map<String, Value>, values: Map<String, Value> },
    /// The metadata of a GGUF file, and the name of its architecture.
    Gguf { metadata: Metadata, architecture: String },
}

/// Longest value of a text member.
const MAX_TEXT_BYTES: usize = 128;

impl Checkpoint {
    /// The hyperparameters, if there is a configuration that names a model.
    pub(super) fn settings(&self) -> Option<Settings> {
        if self.format() == Format::Gguf {
            // A file that cannot be read again is reported when it is decoded.
            let metadata = self.all_metadata().ok()??;
            let architecture = metadata.get("general.architecture")?.as_string()?.to_owned();
            return Some(Settings::Gguf { metadata, architecture });
        }
        let Ok(Value::Object(raw)) = json::from_slice(self.model_config()?) else { return None };
        let is_model = raw.get("model_type").is_some_and(Value::is_string) || class_of(&raw).is_some();
        is_model.then(|| Settings::Json { values: flattened(&raw), raw })
    }
}

impl Settings {
    /// The first of the configuration's keys that is a count, or that of a GGUF file without its architecture. A list
    /// with a value per layer counts as its largest.
    pub(super) fn count(&self, keys: &[&str], gguf: &str) -> Option<u64> {
        match self {
            Self::Json { values, .. } => keys.iter().find_map(|key| json_count(values.get(*key)?)),
            Self::Gguf { metadata, architecture } => gguf_count(metadata.get(&format!("{architecture}.{gguf}"))?),
        }
    }

    /// A member of a configuration, at the top or in that of the language model.
    pub(super) fn member(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Json { values, .. } => values.get(key).filter(|value| !value.is_null()),
            Self::Gguf { .. } => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self {
            // The outermost model ties its own embeddings.
            Self::Json { raw, values } => raw.get(key).or_else(|| values.get(key))?.as_bool(),
            Self::Gguf { .. } => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.member(key)?.as_str().filter(|text| text.len() <= MAX_TEXT_BYTES)
    }

    /// `model_type` of the language model, or the architecture of a GGUF file.
    pub(super) fn model_type(&self) -> Option<&str> {
        match self {
            Self::Json { .. } => self.text("model_type"),
            Self::Gguf { architecture, .. } => Some(architecture.as_str()).filter(|name| name.len() <= MAX_TEXT_BYTES),
        }
    }

    /// `model_type` of the whole model, or the architecture of a GGUF file.
    pub(super) fn outer_type(&self) -> Option<&str> {
        match self {
            Self::Json { raw, .. } => {
                let outer = raw.get("model_type").and_then(Value::as_str);
                outer.filter(|text| text.len() <= MAX_TEXT_BYTES).or_else(|| self.model_type())
            }
            Self::Gguf { .. } => self.model_type(),
        }
    }

    /// The class of transformers.
    pub(super) fn class(&self) -> Option<&str> {
        match self {
            Self::Json { raw, .. } => class_of(raw).filter(|class| class.len() <= MAX_TEXT_BYTES),
            Self::Gguf { .. } => None,
        }
    }

    pub(super) const fn is_gguf(&self) -> bool {
        matches!(self, Self::Gguf { .. })
    }

    /// The metadata of a GGUF file under a key without the architecture.
    pub(super) fn metadata(&self, key: &str) -> Option<&MetadataValue> {
        match self {
            Self::Json { .. } => None,
            Self::Gguf { metadata, architecture } => metadata.get(&format!("{architecture}.{key}")),
        }
    }

    /// The number of tokens in the vocabulary.
    pub(super) fn vocabulary(&self) -> Option<u64> {
        let tokens = || match self {
            Self::Gguf { metadata, .. } => match metadata.get("tokenizer.ggml.tokens")? {
                MetadataValue::Array(tokens) => Some(tokens.len() as u64),
                _ => None,
            },
            Self::Json { .. } => None,
        };
        self.count(&["vocab_size"], "vocab_size").or_else(tokens)
    }
}

fn json_count(value: &Value) -> Option<u64> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_u64).max(),
        value => value.as_u64(),
    }
}

fn gguf_count(value: &MetadataValue) -> Option<u64> {
    match value {
        MetadataValue::U8(number) => Some((*number).into()),
        MetadataValue::U16(number) => Some((*number).into()),
        MetadataValue::U32(number) => Some((*number).into()),
        MetadataValue::U64(number) => Some(*number),
        MetadataValue::I32(number) => u64::try_from(*number).ok(),
        MetadataValue::I64(number) => u64::try_from(*number).ok(),
        MetadataValue::Array(items) => match &**items {
            MetadataArray::U32(items) => items.iter().copied().max().map(u64::from),
            MetadataArray::I32(items) => items.iter().copied().max().and_then(|most| u64::try_from(most).ok()),
            _ => None,
        },
        _ => None,
    }
}
