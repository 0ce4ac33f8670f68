//! `quant_state`: the JSON that describes a four-bit weight.

#[cfg(feature = "encode")]
mod write;

use serde_json::Value;

use crate::catalog::TargetDtype;
use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, Result};

#[cfg(feature = "encode")]
pub(in crate::scheme::bnb) use write::quant_state_json;

/// A parsed `quant_state`: each value is valid by itself, but not yet checked against the tensors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuantState {
    pub shape: Vec<usize>,
    pub block: u64,
    /// `nf4` or `fp4`.
    pub kind: Option<String>,
    /// The original type of the weight, which the library decodes to; `None` if it is none of ours.
    pub dtype: Option<TargetDtype>,
    pub nested_block: Option<u64>,
    pub nested_offset: Option<f32>,
}

/// The largest `quant_state` that is read.
pub(in crate::scheme::bnb) const MAX_QUANT_STATE_BYTES: u64 = 64 << 10;

impl QuantState {
    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| AnamnesisError::parse(format!("quant_state is not JSON: {error}")))?;
        if !value.is_object() {
            return Err(AnamnesisError::parse("quant_state is not a JSON object"));
        }
        let shape = |value: &Value| -> Option<Vec<usize>> {
            let dims = value.as_array()?.iter().map(|dim| usize::try_from(dim.as_u64()?).ok());
            dims.collect::<Option<Vec<_>>>().filter(|shape| elements(shape).is_some())
        };
        let positive = |value: &Value| value.as_u64().filter(|&number| number > 0);
        let even = |value: &Value| positive(value).filter(|block| block.is_multiple_of(2));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // The writer converted an f32, so rounding the f64 back to f32 is exact.
        let offset = |value: &Value| value.as_f64().map(|offset| offset as f32).filter(|offset| offset.is_finite());
        let kind = |value: &Value| text(value).filter(|kind| matches!(kind.as_str(), "nf4" | "fp4"));
        let is_float32 = |value: &Value| (value == "float32").then_some(());
        let dtype = member(&value, "dtype", "text", text)?;
        // The decoder multiplies nested scales in F32.
        member(&value, "nested_dtype", "float32", is_float32)?;
        let missing = |key: &str| AnamnesisError::parse(format!("quant_state has no {key}"));
        Ok(Self {
            shape: member(&value, "shape", "a list of lengths", shape)?.ok_or_else(|| missing("shape"))?,
            block: member(&value, "blocksize", "an even number", even)?.ok_or_else(|| missing("blocksize"))?,
            kind: member(&value, "quant_type", "nf4 or fp4", kind)?,
            dtype: match dtype.as_deref() {
                Some("bfloat16") => Some(TargetDtype::BF16),
                Some("float16") => Some(TargetDtype::F16),
                Some("float32") => Some(TargetDtype::F32),
                _ => None,
            },
            // Some writers store 0 if nothing is nested.
            nested_block: member(&value, "nested_blocksize", "a number", Value::as_u64)?.filter(|&block| block > 0),
            nested_offset: member(&value, "nested_offset", "a number", offset)?,
        })
    }
}

/// An optional member, refused unless `read` accepts its value.
fn member<T>(state: &Value, key: &str, needed: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
    let Some(value) = state.get(key) else { return Ok(None) };
    let wrong = || AnamnesisError::parse(format!("quant_state has {key} {value}, {needed} is needed"));
    read(value).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quant_state_is_parsed() {
        let json = br#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 70], "dtype": "bfloat16",
            "nested_offset": 0.5, "nested_blocksize": 256, "nested_dtype": "float32", "more": null}"#;
        let wanted = QuantState {
            shape: vec![33, 70],
            block: 64,
            kind: Some("nf4".to_owned()),
            dtype: Some(TargetDtype::BF16),
            nested_block: Some(256),
            nested_offset: Some(0.5),
        };
        assert_eq!(QuantState::parse(json).unwrap(), wanted);
        let short = QuantState { kind: None, dtype: None, nested_block: None, nested_offset: None, ..wanted };
        assert_eq!(QuantState::parse(br#"{"blocksize": 64, "shape": [33, 70]}"#).unwrap(), short);
    }

    #[test]
    fn nonsense_is_refused() {
        for json in ["", "[]", "{}", "3", r#"{"blocksize":64}"#, r#"{"shape":[2]}"#] {
            assert!(QuantState::parse(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_member_of_another_type_or_value_is_refused_by_name() {
        for (key, values) in [
            ("blocksize", &["0", "63", "-64", "64.0", "\"64\"", "null", "[64]"][..]),
            ("shape", &["[-1]", "[4294967296,4294967296,2]", "\"big\"", "null", "[2.5]", "{}"]),
            ("quant_type", &["\"int8\"", "4", "null"]),
            ("dtype", &["16", "null"]),
            ("nested_blocksize", &["-1", "1.5", "\"256\"", "null"]),
            ("nested_dtype", &["\"float16\"", "32"]),
            ("nested_offset", &["\"0.5\"", "null", "1e300", "[0.5]"]),
        ] {
            for value in values {
                let mut members = vec![("blocksize", "64"), ("shape", "[2]")];
                members.retain(|(known, _)| *known != key);
                members.push((key, value));
                let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                let error = QuantState::parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap_err().to_string();
                assert!(error.contains(key), "{key} {value}: {error}");
            }
        }
    }
}
