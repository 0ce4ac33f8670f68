//! Eight-bit weights, both directions.

#[cfg(feature = "encode")]
mod codes;
mod decoder;
#[cfg(feature = "encode")]
mod encoder;

#[cfg(test)]
pub(super) use codes::encode_int8_rows;
pub(super) use decoder::BnbInt8;
pub(crate) use decoder::BnbInt8Decoder;
#[cfg(feature = "encode")]
pub(super) use encoder::Int8Encoder;
