//! Four-bit weights, both directions.

mod codes;
mod decoder;
mod encoder;
mod mean;
mod nested;
mod nested_map;
mod quant_state;

#[cfg(test)]
pub(super) use codes::encode_4bit_blocks;
pub(crate) use codes::{FP4_MAP, NF4_MAP, QuantType};
pub(super) use decoder::Bnb4;
pub(crate) use decoder::{Bnb4Decoder, Nested};
pub(super) use encoder::FourBitEncoder;
#[cfg(test)]
pub(super) use mean::NestedMean;
#[cfg(test)]
pub(super) use nested::{NESTED_BLOCK_SIZE, encode_nested_scales};
#[cfg(test)]
pub(super) use nested_map::nested_quant_map;
pub(super) use quant_state::MAX_QUANT_STATE_BYTES;
#[cfg(test)]
pub(super) use quant_state::quant_state_json;
