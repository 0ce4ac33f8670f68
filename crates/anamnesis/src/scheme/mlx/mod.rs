//! MLX: codes in 32-bit words under groups along each row.
//!
//! | part | types | shape for a weight `[.., out, in]` |
//! |---|---|---|
//! | `X.weight` | U32 | `[.., out, in * bits / 32]`, codes one after the other from the lowest bit on |
//! | `X.scales` | BF16, F16, F32; U8 in the modes of floats | `[.., out, in / group]` |
//! | `X.biases` | as the scales; the mode `affine` alone has them | `[.., out, in / group]` |
//!
//! | mode | codes | group | value |
//! |---|---|---|---|
//! | `affine` | 1, 2, 3, 4, 5, 6 or 8 bits | 32, 64 or 128 | `scale * code`, rounded to F32, then `+ bias` |
//! | `mxfp4` | E2M1 | 32 | `code * 2^(scale - 127)`; 255 is infinite |
//! | `mxfp8` | E4M3 | 32 | the same |
//! | `nvfp4` | E2M1 | 16 | `code * scale`, the scale an E4M3 in a byte |
//!
//! What transformers stores by its method `metal` is the same as `affine` of 2, 4 or 8 bits, in groups of any size, with biases
//! called `X.qbiases`; it calculates in F32.
//!
//! MLX itself calculates `affine` in the type of the scales and rounds after each of the two steps.

mod claim;
mod mode;
mod parts;
mod quantiser;
mod scale_rules;
mod weight;

pub(crate) use claim::Mlx;
pub(crate) use quantiser::ENCODINGS;
