//! The JSON of the header, parsed with a visitor: duplicate keys are refused, unknown ones ignored.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::catalog::{Dtype, Metadata, MetadataValue};
use crate::error::{AnamnesisError, Result};

/// The key of the metadata, reserved by the format.
pub(super) const METADATA: &str = "__metadata__";

/// A tensor as declared in the header, not validated.
#[derive(Debug)]
pub(super) struct DeclaredTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub start: u64,
    pub end: u64,
}

/// The content of the header, in file order.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub tensors: Vec<DeclaredTensor>,
    pub metadata: Option<Metadata>,
}

pub(super) fn parse(json: &[u8]) -> Result<Document> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let document = deserializer
        .deserialize_map(DocumentVisitor)
        .and_then(|document| deserializer.end().map(|()| document))
        .map_err(|error| AnamnesisError::parse(format!("failed to parse safetensors header: {error}")))?;
    Ok(document)
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Document, A::Error> {
        let mut document = Document::default();
        let mut seen_metadata = false;
        while let Some(name) = map.next_key_seed(StringSeed)? {
            if name == METADATA {
                if std::mem::replace(&mut seen_metadata, true) {
                    return Err(A::Error::custom("__metadata__ occurs twice"));
                }
                document.metadata = map.next_value_seed(MetadataSeed)?;
            } else {
                let name = name.into_owned();
                document.tensors.push(map.next_value_seed(TensorSeed { name })?);
            }
        }
        Ok(document)
    }
}

/// A string, borrowed from the header where it has no escapes.
struct StringSeed;

impl<'de> DeserializeSeed<'de> for StringSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for StringSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// `__metadata__`: an object of strings, or null.
struct MetadataSeed;

impl<'de> DeserializeSeed<'de> for MetadataSeed {
    type Value = Option<Metadata>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MetadataSeed {
    type Value = Option<Metadata>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("__metadata__ to be an object of strings")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut metadata = Metadata::new();
        while let Some(key) = map.next_key_seed(StringSeed)? {
            let value = map.next_value_seed(StringSeed)?.into_owned();
            if metadata.insert(key.clone().into_owned(), MetadataValue::String(value)).is_some() {
                return Err(A::Error::custom(format_args!("__metadata__ has the key {key:?} twice")));
            }
        }
        Ok(Some(metadata))
    }
}

/// One tensor's entry.
struct TensorSeed {
    name: String,
}

impl<'de> DeserializeSeed<'de> for TensorSeed {
    type Value = DeclaredTensor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TensorSeed {
    type Value = DeclaredTensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {} to be an object", crate::error::quoted(&self.name))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<DeclaredTensor, A::Error> {
        let name = self.name;
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        let fault = |what: &str| A::Error::custom(format_args!("tensor {} {what}", crate::error::quoted(&name)));
        while let Some(key) = map.next_key_seed(StringSeed)? {
            let twice = match &*key {
                "dtype" => {
                    let text = map.next_value_seed(StringSeed)?;
                    let known = Dtype::from_name(&text)
                        .ok_or_else(|| fault(&format!("has the unknown dtype {}", crate::error::quoted(&text))))?;
                    dtype.replace(known).is_some()
                }
                "shape" => {
                    let numbers = map.next_value_seed(ShapeSeed);
                    shape.replace(numbers.map_err(|error| fault(&format!("has a wrong {key}: {error}")))?).is_some()
                }
                "data_offsets" => {
                    let pair = map.next_value_seed(OffsetsSeed);
                    offsets.replace(pair.map_err(|error| fault(&format!("has a wrong {key}: {error}")))?).is_some()
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if twice {
                return Err(fault(&format!("has the key {key:?} twice")));
            }
        }
        let dtype = dtype.ok_or_else(|| fault("has no dtype"))?;
        let shape = shape.ok_or_else(|| fault("has no shape"))?;
        match offsets {
            Some(Some([start, end])) => Ok(DeclaredTensor { name, dtype, shape, start, end }),
            Some(None) => Err(fault("has data_offsets that are not a pair")),
            None => Err(fault("has no data_offsets")),
        }
    }
}

/// A list of unsigned integers.
struct ShapeSeed;

impl<'de> DeserializeSeed<'de> for ShapeSeed {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed {
    type Value = Vec<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of whole numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self::Value, A::Error> {
        let mut numbers = Vec::with_capacity(4);
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(numbers)
    }
}

/// A pair of unsigned integers; `None` for a list of any other length.
struct OffsetsSeed;

impl<'de> DeserializeSeed<'de> for OffsetsSeed {
    type Value = Option<[u64; 2]>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for OffsetsSeed {
    type Value = Option<[u64; 2]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of whole numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self::Value, A::Error> {
        let (first, second) = (list.next_element()?, list.next_element()?);
        let mut more = 0;
        while list.next_element::<u64>()?.is_some() {
            more += 1;
        }
        Ok(first.zip(second).filter(|_| more == 0).map(|(first, second)| [first, second]))
    }
}
