//! EETQ: eight-bit integers with a scale per output, interleaved for tensor cores (compute capability 7.5 to 8.9).
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.weight`, or `X.qweight` in EETQ's own files | I8 `[in, out]` | the codes, in the order of [`order`] |
//! | `X.weight_scales` | F16 `[out]` | |
//!
//! `value = code * scale`, and the weight is transposed to `[out, in]`. To quantise, a row is divided by its largest
//! magnitude / 128.

mod claim;
#[cfg(feature = "encode")]
mod encoder;
mod order;
#[cfg(feature = "encode")]
mod quantiser;

pub(crate) use claim::Eetq;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
