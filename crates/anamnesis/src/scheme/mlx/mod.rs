//! MLX: codes packed into 32-bit words, in groups along each row.
//!
//! | part | types | shape for a weight `[.., out, in]` |
//! |---|---|---|
//! | `X.weight` | U32 | `[.., out, in * bits / 32]`, consecutive codes from the lowest bit on |
//! | `X.scales` | BF16, F16, F32; U8 in the float modes | `[.., out, in / group]` |
//! | `X.biases` | the type of the scales; only in the mode `affine` | `[.., out, in / group]` |
//!
//! | mode | codes | group | value |
//! |---|---|---|---|
//! | `affine` | 1, 2, 3, 4, 5, 6 or 8 bits | 32, 64 or 128 | `scale * code`, rounded to F32, then `+ bias` |
//! | `mxfp4` | E2M1 | 32 | `code * 2^(scale - 127)`; 255 is infinite |
//! | `mxfp8` | E4M3 | 32 | the same |
//! | `nvfp4` | E2M1 | 16 | `code * scale`; the scale is an E4M3 stored as U8 |
//!
//! The method `metal` of transformers stores the same as `affine` with 2, 4 or 8 bits and groups of any size, with
//! biases named `X.qbiases`; it calculates in F32.
//!
//! MLX itself calculates `affine` in the type of the scales and rounds after each of the two steps.

mod claim;
mod mode;
mod parts;
#[cfg(feature = "encode")]
mod quantiser;
#[cfg(feature = "encode")]
mod scale_rules;
mod weight;

pub(crate) use claim::Mlx;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
