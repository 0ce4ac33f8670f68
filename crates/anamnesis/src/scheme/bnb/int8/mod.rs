//! Eight-bit weights, both directions.

mod codes;
mod decoder;
mod encoder;

#[cfg(test)]
pub(super) use codes::encode_int8_rows;
pub(super) use decoder::BnbInt8;
pub(crate) use decoder::BnbInt8Decoder;
pub(super) use encoder::Int8Encoder;
