//! ModelOpt: four-bit floats with a scale for every 16 or 32 of them, and integers. Its eight-bit floats are read by `fp8`.
//!
//! | part | NVFP4 | MXFP4 | shape for a weight `[.., out, in]` |
//! |---|---|---|---|
//! | `X.weight` | U8 | U8 | `[.., out, in / 2]`, the low half of a byte first |
//! | `X.weight_scale` | F8_E4M3 | U8, an exponent | `[.., out, in / 16]`; `[.., out, in / 32]` |
//! | `X.weight_scale_2` | F32 | | one value, or one for every matrix of a stack |
//! | value | `code * (scale * scale_2)` | `code * 2^(scale - 127)` | |
//!
//! Experts in one stack are a parameter `P` of their own: `P`, `P_weight_scale`, `P_weight_scale_2`. Where the model multiplies
//! by them the other way round, `[.., in, out]`, codes and groups lie down the columns: `[.., in / 2, out]` and
//! `[.., in / 16, out]`.
//!
//! `W4A16_AWQ` is of whole numbers of four bits in two's complement: `X.weight` U8 `[.., out / 2, in]`, the even rows in the low
//! halves; `X.weight_scale` F32 `[.., out, in / 128]`. `W4A8_AWQ` rounds the same once more and is refused by name.
//!
//! Code 8 of NVFP4 is +0, that of MXFP4 −0. Scales of activations are consumed. What changes the weight besides — scaled inputs,
//! a low-rank part, scales in the order of a kernel — is refused by name.

mod algorithm;
mod claim;
mod naming;
mod parts;
mod quantiser;
mod scale_rules;
mod shape;
mod weight;

pub(crate) use claim::ModelOpt;
pub(crate) use quantiser::ENCODINGS;
