//! MXFP4: four-bit floats with a power-of-two scale per 32 values.
//!
//! | writer | codes | scales | decoded to |
//! |---|---|---|---|
//! | gpt-oss | `X_blocks` U8 `[experts, out, in / 32, 16]` | `X_scales` U8 `[experts, out, in / 32]` | `X` `[experts, in, out]`: transposed |
//! | DeepSeek-V4 | `X.weight` I8 `[.., out, in / 2]` | `X.scale` F8_E8M0 `[.., out, in / 32]` | `X.weight` `[.., out, in]` |
//! | transformers | the same, or a parameter `P` | `X.weight_scale_inv`, `P_scale_inv` | the same |
//!
//! The low nibble of a byte comes first, and code 8 is −0. A value is `code * 2^(scale - 127)`. gpt-oss adds the
//! exponents, so 255 is 2^128; DeepSeek multiplies by an E8M0 float, where 255 is NaN.

mod claim;
#[cfg(feature = "encode")]
mod encoder;
mod gpt_oss;
mod method;
#[cfg(feature = "encode")]
mod quantiser;
mod rows;
mod transposed;

pub(crate) use claim::Mxfp4;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
