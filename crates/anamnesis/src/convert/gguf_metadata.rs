//! GGUF metadata as users write it: `key=value`, and typed JSON.
//!
//! | JSON | becomes |
//! |---|---|
//! | string, true, false | `String`, `Bool` |
//! | integer | `U32` if it fits, else `I64`, else `U64` |
//! | other number | `F32` |
//! | array | an array of its first element's type, which all elements must have |
//! | `{"type": "u8", "value": 3}` | a value of exactly this type |
//! | `{"type": "array", "item_type": "u8", "value": [3]}` | an array of exactly this type, which may be empty |

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::catalog::{MetadataArray, MetadataValue};
use crate::checkpoint::{MAX_JSON_VALUES, check_json_values, read_existing};
use crate::error::{AnamnesisError, Result, quoted};

/// Maximum size of a metadata file: several times a large vocabulary.
const MAX_METADATA_BYTES: u64 = 32 << 20;

/// Parses `key=value`; the value is always a string.
///
/// # Errors
/// `Parse` if there is no `=` or no key before it.
pub fn parse_gguf_kv_arg(text: &str) -> Result<(String, MetadataValue)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), MetadataValue::String(value.to_owned()))),
        _ => Err(AnamnesisError::parse(format!("{} is not of the form key=value", quoted(text)))),
    }
}

/// Parses a JSON object of metadata.
///
/// ```
/// use anamnesis::{GgufMetadataValue, convert::parse_gguf_metadata_json};
/// let metadata = parse_gguf_metadata_json(r#"{"llama.block_count": 32, "x": {"type": "i8", "value": -1}}"#)?;
/// assert_eq!(metadata["llama.block_count"], GgufMetadataValue::U32(32));
/// assert_eq!(metadata["x"], GgufMetadataValue::I8(-1));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if it is not an object or a value does not fit its type, `LimitExceeded` if it has too many values.
pub fn parse_gguf_metadata_json(text: &str) -> Result<HashMap<String, MetadataValue>> {
    check_json_values(text.as_bytes(), MAX_JSON_VALUES, "metadata")?;
    let document: Value = serde_json::from_slice(text.as_bytes())
        .map_err(|error| AnamnesisError::parse(format!("metadata is not JSON: {error}")))?;
    let Value::Object(object) = document else {
        return Err(AnamnesisError::parse("metadata must be a JSON object of keys with values"));
    };
    let entry = |(key, value): (String, Value)| match read_value(&value) {
        Ok(value) => Ok((key, value)),
        Err(why) => Err(AnamnesisError::parse(format!("metadata key {}: {why}", quoted(&key)))),
    };
    object.into_iter().map(entry).collect()
}

/// [`parse_gguf_metadata_json`] for a file.
///
/// # Errors
/// As [`parse_gguf_metadata_json`]; `Io` if it is not a regular file or cannot be read, `LimitExceeded` if it is
/// larger than 32 MiB.
pub fn read_gguf_metadata_json(path: impl AsRef<Path>) -> Result<HashMap<String, MetadataValue>> {
    let path = path.as_ref();
    let text = read_existing(path, MAX_METADATA_BYTES, None)?;
    let text = String::from_utf8(text).map_err(|_| AnamnesisError::parse("metadata is not JSON: it is not UTF-8"));
    text.and_then(|text| parse_gguf_metadata_json(&text)).map_err(|error| error.in_file(path))
}

type ParseResult<T> = std::result::Result<T, String>;

fn read_value(value: &Value) -> ParseResult<MetadataValue> {
    match value {
        Value::Object(object) => read_typed(object),
        Value::Array(items) => {
            let first =
                items.first().ok_or("an empty array needs its type: {\"type\": \"array\", \"item_type\": ...}")?;
            read_array(default_type(first)?, items)
        }
        scalar => read_scalar(default_type(scalar)?, scalar),
    }
}

/// The default metadata type of a JSON value without an explicit type.
fn default_type(value: &Value) -> ParseResult<&'static str> {
    match value {
        Value::String(_) => Ok("string"),
        Value::Bool(_) => Ok("bool"),
        Value::Number(number) => Ok(match (number.as_u64(), number.as_i64()) {
            (Some(number), _) if u32::try_from(number).is_ok() => "u32",
            (_, Some(_)) => "i64",
            (Some(_), None) => "u64",
            (None, None) => "f32",
        }),
        Value::Null => Err("null has no type".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("arrays of arrays or objects are not read".to_owned()),
    }
}

fn read_typed(object: &Map<String, Value>) -> ParseResult<MetadataValue> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    match (text("type"), object.get("value"), text("item_type"), object.len()) {
        (Some("array"), Some(Value::Array(items)), Some(item_type), 3) => read_array(item_type, items),
        (Some(scalar), Some(value), None, 2) if scalar != "array" => read_scalar(scalar, value),
        _ => Err("an object must be {\"type\": ..., \"value\": ...}, an array with \"item_type\" too".to_owned()),
    }
}

/// One line per type: its name, its variant, and its conversion from JSON.
macro_rules! types {
    ($($name:literal $variant:ident $read:expr;)*) => {
        fn read_scalar(kind: &str, value: &Value) -> ParseResult<MetadataValue> {
            match kind {
                $($name => Ok(MetadataValue::$variant($read(value).ok_or_else(|| misfit(value, kind))?)),)*
                other => Err(unknown(other)),
            }
        }

        fn read_array(kind: &str, items: &[Value]) -> ParseResult<MetadataValue> {
            let array = match kind {
                $($name => MetadataArray::$variant(
                    items.iter().map(|item| $read(item).ok_or_else(|| misfit(item, kind))).collect::<ParseResult<_>>()?,
                ),)*
                other => return Err(unknown(other)),
            };
            Ok(MetadataValue::Array(Box::new(array)))
        }
    };
}

types! {
    "u8" U8 |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    "i8" I8 |value: &Value| value.as_i64().and_then(|number| i8::try_from(number).ok());
    "u16" U16 |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    "i16" I16 |value: &Value| value.as_i64().and_then(|number| i16::try_from(number).ok());
    "u32" U32 |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    "i32" I32 |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    "u64" U64 Value::as_u64;
    "i64" I64 Value::as_i64;
    "f32" F32 |value: &Value| value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
    "f64" F64 Value::as_f64;
    "bool" Bool Value::as_bool;
    "string" String |value: &Value| value.as_str().map(str::to_owned);
}

fn misfit(value: &Value, kind: &str) -> String {
    format!("{value} does not fit the type {kind}")
}

fn unknown(kind: &str) -> String {
    let kind = quoted(kind);
    format!("{kind} is not a type; allowed are u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool and string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> Result<MetadataValue> {
        parse_gguf_metadata_json(&format!("{{\"k\": {json}}}")).map(|mut all| all.remove("k").unwrap())
    }

    #[test]
    fn plain_values_get_their_default_types() {
        use MetadataValue as V;
        let cases = [
            ("\"x\"", V::String("x".to_owned())),
            ("true", V::Bool(true)),
            ("4294967295", V::U32(u32::MAX)),
            ("4294967296", V::I64(1 << 32)),
            ("-1", V::I64(-1)),
            ("18446744073709551615", V::U64(u64::MAX)),
            ("0.5", V::F32(0.5)),
            ("[1, 2]", V::Array(Box::new(MetadataArray::U32(vec![1, 2])))),
            ("[\"a\"]", V::Array(Box::new(MetadataArray::String(vec!["a".to_owned()])))),
            (r#"{"type": "u8", "value": 255}"#, V::U8(255)),
            (r#"{"type": "f64", "value": 1}"#, V::F64(1.0)),
            (r#"{"type": "array", "item_type": "i16", "value": []}"#, V::Array(Box::new(MetadataArray::I16(vec![])))),
        ];
        for (json, wanted) in cases {
            assert_eq!(one(json).unwrap(), wanted, "{json}");
        }
    }

    #[test]
    fn values_that_do_not_fit_their_type_are_refused() {
        for json in [
            "null",
            "[]",
            "{}",
            "[1, \"a\"]",
            "[1, -1]",
            "[[1]]",
            "[null]",
            "1e300",
            r#"{"type": "u8", "value": 256}"#,
            r#"{"type": "u8", "value": "1"}"#,
            r#"{"type": "u9", "value": 1}"#,
            r#"{"type": "u8", "value": 1, "more": 2}"#,
            r#"{"type": "array", "value": [1]}"#,
        ] {
            assert!(matches!(one(json), Err(AnamnesisError::Parse { .. })), "{json}");
        }
        assert!(parse_gguf_metadata_json("[]").is_err() && parse_gguf_metadata_json("{").is_err());
    }

    #[test]
    fn key_value_pairs_are_strings() {
        let (key, value) = parse_gguf_kv_arg("general.name=a=b").unwrap();
        assert_eq!((key.as_str(), value), ("general.name", MetadataValue::String("a=b".to_owned())));
        for text in ["", "=", "=b", "key"] {
            assert!(parse_gguf_kv_arg(text).unwrap_err().to_string().contains("key=value"), "{text}");
        }
    }
}
