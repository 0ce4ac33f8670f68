//! Checks a restored configuration: converted to GGUF again, it must give the metadata of the file.

use serde_json::{Map, Value};

use crate::architecture::config::Config;
use crate::architecture::gguf::Gguf;
use crate::architecture::key::{Key, ValueSource};
use crate::architecture::kind::Architecture;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::{MetadataArray, MetadataValue};
use crate::error::{AnamnesisError, Result, quoted};

/// Keys without influence on what a model computes.
const HARMLESS: [&str; 4] = ["tensor_data_layout", "rope.scaling.finetuned", "vocab_size", "context_length"];

/// Refuses a file with a key that the configuration cannot express, or without one that it needs.
pub(super) fn check(
    architecture: &'static Architecture,
    file: &Gguf<'_>,
    raw: &Map<String, Value>,
    read: &Config,
) -> Result<()> {
    let metadata = metadata(architecture, read)?;
    for (key, _) in metadata.entries().iter().filter(|(key, _)| !file.metadata.contains_key(key)) {
        if is_default(architecture, raw, key)? {
            return Err(AnamnesisError::parse(format!("the file has no {}", quoted(key))));
        }
    }
    for (key, value) in metadata.entries() {
        let Some(stored) = file.metadata.get(key).filter(|stored| !is_same(stored, value)) else { continue };
        let (stored, value) = (shown(stored), shown(value));
        let why = format!("{} is {stored}, the configuration of a checkpoint can only say {value}", quoted(key));
        return Err(AnamnesisError::parse(why));
    }
    let prefix = format!("{}.", architecture.name);
    for (key, value) in file.metadata {
        let Some(own) = key.strip_prefix(&prefix) else { continue };
        let is_written = metadata.entries().iter().any(|(known, _)| known == key);
        if is_written || HARMLESS.contains(&own) || is_implied(own, value, read)? {
            continue;
        }
        let why = format!("{} is {}, which a configuration of its checkpoints cannot say", quoted(key), shown(value));
        return Err(AnamnesisError::unsupported(architecture.name, why));
    }
    Ok(())
}

/// Refuses keys of the wrong type, by name: counts are not negative and have 32 bits, numbers are finite.
pub(super) fn check_types(architecture: &'static Architecture, file: &Gguf<'_>) -> Result<()> {
    let keys = || architecture.early_keys.iter().chain(architecture.keys.iter().flat_map(|keys| keys.iter()));
    for key in keys() {
        let name = format!("{}.{}", architecture.name, key.gguf);
        let Some(value) = file.metadata.get(&name) else { continue };
        let is_number = number(value).is_some_and(f64::is_finite);
        let is_count = file.count(key.gguf).is_some_and(|count| u32::try_from(count).is_ok());
        let (is_right, wanted) = match key.from {
            ValueSource::Count(_)
            | ValueSource::CountOr(..)
            | ValueSource::CountFn(_)
            | ValueSource::Needed(_)
            | ValueSource::Size(_)
            | ValueSource::Layers => (is_count, "a count"),
            ValueSource::CountOrList(_) => (is_count || matches!(value, MetadataValue::Array(_)), "a count"),
            ValueSource::Real(_) | ValueSource::RealOr(..) | ValueSource::RealFn(_) | ValueSource::NeededReal(_) => {
                (is_number, "a number")
            }
            ValueSource::TextFn(_) | ValueSource::OwnText(_) => (matches!(value, MetadataValue::String(_)), "text"),
            ValueSource::BoolFn(_) | ValueSource::Flag(_) | ValueSource::FlagOr(..) => {
                (matches!(value, MetadataValue::Bool(_)), "true or false")
            }
            ValueSource::BoolsFn(_)
            | ValueSource::IntsFn(_)
            | ValueSource::LongsFn(_)
            | ValueSource::RealsFn(_)
            | ValueSource::TextsFn(_) => (matches!(value, MetadataValue::Array(_)), "a list"),
            ValueSource::FileType | ValueSource::Removed => (true, ""),
        };
        // A key with one value for all layers may become a list.
        let is_list = matches!(value, MetadataValue::Array(_));
        let other_kind = |other: &Key| other.gguf == key.gguf && other.is_list() == is_list && key.is_list() != is_list;
        if !is_right && !keys().any(other_kind) {
            let why = format!("{} is {}, {wanted} is needed", quoted(&name), shown(value));
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(())
}

fn metadata(architecture: &'static Architecture, config: &Config) -> Result<MetadataBuilder> {
    let mut metadata = MetadataBuilder::default();
    architecture.write_early_keys(config, &mut metadata)?;
    architecture.write_keys(config, 0, &mut metadata)?;
    Ok(metadata.without("general.file_type"))
}

/// Whether the value of a key is a class default: nothing in the file gives it.
fn is_default(architecture: &'static Architecture, raw: &Map<String, Value>, key: &str) -> Result<bool> {
    let metadata = metadata(architecture, &architecture.config_without_constants(raw)?);
    // Keys that cannot be derived without class defaults need them.
    Ok(!metadata.is_ok_and(|metadata| metadata.entries().iter().any(|(known, _)| known == key)))
}

/// Whether a key that the converter no longer writes agrees with the configuration.
fn is_implied(key: &str, value: &MetadataValue, config: &Config) -> Result<bool> {
    Ok(match (key, value) {
        ("expert_weights_norm", MetadataValue::Bool(false)) | ("attention.causal", MetadataValue::Bool(true)) => true,
        ("rope.dimension_count", MetadataValue::U32(dimensions)) => {
            config.head_size().is_ok_and(|size| size == u64::from(*dimensions))
        }
        ("rope.scaling.type", MetadataValue::String(kind)) => kind == "none",
        ("rope.scaling.factor", MetadataValue::F32(1.0)) => true,
        ("rope.scaling.original_context_length", _) => config.rope().kind() == "default",
        _ => false,
    })
}

/// Whether two values are the same number, text or list, of whatever types.
fn is_same(a: &MetadataValue, b: &MetadataValue) -> bool {
    match (a, b) {
        (MetadataValue::Array(a), MetadataValue::Array(b)) => match (integers(a), integers(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
        _ if a == b => true,
        _ => matches!((number(a), number(b)), (Some(a), Some(b)) if a == b),
    }
}

fn number(value: &MetadataValue) -> Option<f64> {
    Some(match value {
        MetadataValue::U8(number) => f64::from(*number),
        MetadataValue::U16(number) => f64::from(*number),
        MetadataValue::U32(number) => f64::from(*number),
        MetadataValue::U64(number) => *number as f64,
        MetadataValue::I32(number) => f64::from(*number),
        MetadataValue::I64(number) => *number as f64,
        MetadataValue::F32(number) => f64::from(*number),
        MetadataValue::F64(number) => f64::from(*number as f32),
        _ => return None,
    })
}

fn integers(array: &MetadataArray) -> Option<Vec<i64>> {
    match array {
        MetadataArray::U32(items) => Some(items.iter().map(|&item| item.into()).collect()),
        MetadataArray::I32(items) => Some(items.iter().map(|&item| item.into()).collect()),
        _ => None,
    }
}

/// A value for messages, shortened.
fn shown(value: &MetadataValue) -> String {
    const MOST: usize = 60;
    match (value, number(value)) {
        (MetadataValue::String(text), _) => quoted(&text.chars().take(MOST).collect::<String>()),
        (MetadataValue::Bool(flag), _) => flag.to_string(),
        (MetadataValue::Array(array), _) => format!("a list of {} items", array.len()),
        (_, Some(number)) => number.to_string(),
        _ => "of another type".to_owned(),
    }
}
