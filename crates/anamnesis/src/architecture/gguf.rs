//! The metadata and tensors of a GGUF file, as the architectures read them.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::names;
use super::rule::BLOCKS;
use crate::catalog::{MetadataArray, MetadataValue};
use crate::error::Result;

/// Reads a few values of a tensor by its name.
type Values<'a> = &'a dyn Fn(&str) -> Result<Option<Vec<f32>>>;

/// The metadata of a file, the shapes of its tensors, and the values of small ones.
pub(crate) struct Gguf<'a> {
    pub metadata: &'a BTreeMap<String, MetadataValue>,
    pub shapes: BTreeMap<&'a str, &'a [usize]>,
    pub values: Values<'a>,
    /// The type of restored tensors.
    pub dtype: &'static str,
}

impl Gguf<'_> {
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            MetadataValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a key of the architecture.
    fn own(&self, key: &str) -> Option<&MetadataValue> {
        let architecture = self.text("general.architecture")?;
        self.metadata.get(&format!("{architecture}.{key}"))
    }

    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        count(self.own(key)?)
    }

    /// A count, or a list of counts.
    pub(crate) fn count_or_list(&self, key: &str) -> Option<Value> {
        match self.own(key)? {
            MetadataValue::Array(array) => match &**array {
                MetadataArray::I32(items) => Some(items.iter().copied().map(Value::from).collect()),
                MetadataArray::U32(items) => Some(items.iter().copied().map(Value::from).collect()),
                _ => None,
            },
            value => count(value).map(Value::from),
        }
    }

    pub(crate) fn real(&self, key: &str) -> Option<f64> {
        real(self.own(key)?)
    }

    pub(crate) fn string(&self, key: &str) -> Option<&str> {
        match self.own(key)? {
            MetadataValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.own(key)? {
            MetadataValue::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn flags(&self, key: &str) -> Option<&[bool]> {
        match self.own(key)? {
            MetadataValue::Array(array) => match &**array {
                MetadataArray::Bool(flags) => Some(flags),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn reals(&self, key: &str) -> Option<&[f32]> {
        match self.own(key)? {
            MetadataValue::Array(array) => match &**array {
                MetadataArray::F32(numbers) => Some(numbers),
                _ => None,
            },
            _ => None,
        }
    }

    /// The count of a full key.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        count(self.metadata.get(key)?)
    }

    /// The number of a full key.
    pub(crate) fn any_real(&self, key: &str) -> Option<f64> {
        real(self.metadata.get(key)?)
    }

    /// Whether any layer has one of these tensors.
    pub(crate) fn has_in_layers(&self, tensors: &[&str]) -> bool {
        let of_layer = |name: &&str| names::in_layer(BLOCKS, name).is_some_and(|(_, rest)| tensors.contains(&rest));
        self.shapes.keys().any(of_layer)
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.shapes.contains_key(tensor)
    }
}

fn count(value: &MetadataValue) -> Option<u64> {
    match value {
        MetadataValue::U8(number) => Some((*number).into()),
        MetadataValue::U16(number) => Some((*number).into()),
        MetadataValue::U32(number) => Some((*number).into()),
        MetadataValue::U64(number) => Some(*number),
        MetadataValue::I32(number) => u64::try_from(*number).ok(),
        MetadataValue::I64(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn real(value: &MetadataValue) -> Option<f64> {
    match value {
        MetadataValue::F32(number) => Some(shortest(*number)),
        MetadataValue::F64(number) => Some(*number),
        other => count(other).map(|number| number as f64),
    }
}

/// The shortest decimal number that rounds to this F32: the value in the configuration.
pub(crate) fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

/// A JSON number; `null` for NaN and infinities.
pub(crate) fn json(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
