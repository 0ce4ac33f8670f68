//! The JSON description beside a four-bit weight.

mod write;

use serde_json::Value;

use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, Result};

pub(in crate::scheme::bnb) use write::quant_state_json;

/// What a `quant_state` says, checked for sense but not yet against the tensors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuantState {
    pub shape: Vec<usize>,
    pub block: u64,
    pub nested_block: Option<u64>,
    pub nested_offset: Option<f32>,
}

/// Longest description read, in bytes.
pub(in crate::scheme::bnb) const MAX_QUANT_STATE_BYTES: u64 = 64 << 10;

impl QuantState {
    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| AnamnesisError::parse(format!("quant_state is not JSON: {error}")))?;
        let shape: Option<Vec<usize>> = value["shape"]
            .as_array()
            .and_then(|dims| dims.iter().map(|dim| dim.as_u64().and_then(|dim| usize::try_from(dim).ok())).collect());
        let shape = shape
            .filter(|shape| elements(shape).is_some())
            .ok_or_else(|| AnamnesisError::parse(format!("quant_state has no usable shape: {}", value["shape"])))?;
        let block =
            value["blocksize"].as_u64().filter(|&block| block > 0 && block.is_multiple_of(2)).ok_or_else(|| {
                AnamnesisError::parse(format!("quant_state has no usable blocksize: {}", value["blocksize"]))
            })?;
        Ok(Self {
            shape,
            block,
            nested_block: value["nested_blocksize"].as_u64().filter(|&block| block > 0),
            // Written from an f32, so that the way back through f64 is exact.
            nested_offset: value["nested_offset"].as_f64().map(|offset| offset as f32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read() {
        let json = br#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 70], "nested_offset": 0.5}"#;
        let state = QuantState::parse(json).unwrap();
        assert_eq!(state, QuantState { shape: vec![33, 70], block: 64, nested_block: None, nested_offset: Some(0.5) });
    }

    #[test]
    fn nonsense_is_refused() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"blocksize":64}"#,
            r#"{"blocksize":0,"shape":[2]}"#,
            r#"{"blocksize":63,"shape":[2]}"#,
            r#"{"blocksize":64,"shape":[-1]}"#,
            r#"{"blocksize":64,"shape":[4294967296,4294967296,2]}"#,
            r#"{"blocksize":64,"shape":"big"}"#,
        ] {
            assert!(QuantState::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
