//! ModelOpt's four-bit formats: floats with a scale per 16 or 32 values, and integers. Its eight-bit floats are decoded
//! by `fp8`.
//!
//! | part | NVFP4 | MXFP4 | shape for a weight `[.., out, in]` |
//! |---|---|---|---|
//! | `X.weight` | U8 | U8 | `[.., out, in / 2]`, the low nibble of a byte first |
//! | `X.weight_scale` | F8_E4M3 | U8, an exponent | `[.., out, in / 16]`; `[.., out, in / 32]` |
//! | `X.weight_scale_2` | F32 | | the global scale: one value, or one for every matrix of a stack |
//! | value | `code * (scale * scale_2)` | `code * 2^(scale - 127)` | |
//!
//! Stacked experts are a parameter `P`: `P`, `P_weight_scale`, `P_weight_scale_2`. If the model stores them transposed,
//! `[.., in, out]`, codes and groups run down the columns: `[.., in / 2, out]` and `[.., in / 16, out]`.
//!
//! `W4A16_AWQ` has four-bit integers in two's complement: `X.weight` U8 `[.., out / 2, in]`, the even rows in the low
//! nibbles; `X.weight_scale` F32 `[.., out, in / 128]`. `W4A8_AWQ` rounds these a second time and is refused by name.
//!
//! Code 8 of NVFP4 is +0, that of MXFP4 −0. Activation scales are dropped. Companions that change the meaning of a
//! weight (scaled inputs, a low-rank part, scales swizzled for a kernel) are refused by name.

mod algorithm;
mod claim;
mod naming;
mod parts;
#[cfg(feature = "encode")]
mod quantiser;
#[cfg(feature = "encode")]
mod scale_rules;
mod shape;
mod weight;

pub(crate) use claim::ModelOpt;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
