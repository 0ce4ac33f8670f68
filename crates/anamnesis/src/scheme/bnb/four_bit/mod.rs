//! Four-bit weights, both directions.

#[cfg(feature = "encode")]
mod codes;
mod decoder;
#[cfg(feature = "encode")]
mod encoder;
#[cfg(feature = "encode")]
mod mean;
#[cfg(feature = "encode")]
mod nested;
#[cfg(feature = "encode")]
mod nested_map;
mod quant_state;
mod tables;

#[cfg(test)]
pub(super) use codes::encode_4bit_blocks;
pub(super) use decoder::Bnb4;
pub(crate) use decoder::{Bnb4Decoder, Nested};
#[cfg(feature = "encode")]
pub(super) use encoder::FourBitEncoder;
#[cfg(test)]
#[cfg(feature = "encode")]
pub(super) use mean::NestedMean;
#[cfg(test)]
pub(super) use nested::{NESTED_BLOCK_SIZE, encode_nested_scales};
#[cfg(test)]
#[cfg(feature = "encode")]
pub(super) use nested_map::nested_quant_map;
pub(super) use quant_state::MAX_QUANT_STATE_BYTES;
#[cfg(test)]
pub(super) use quant_state::quant_state_json;
pub(crate) use tables::{FP4_MAP, NF4_MAP, QuantType};
