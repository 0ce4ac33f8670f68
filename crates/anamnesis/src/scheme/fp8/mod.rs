//! FP8: eight-bit floats with scales; `value = f32(code) * f32(scale)`, rounded once to the output type.
//!
//! | part | types | shape for a weight `[.., out, in]` |
//! |---|---|---|
//! | weight | F8_E4M3, F8_E5M2, their FNUZ forms | `[.., out, in]` |
//! | scale | F32, BF16, F16, F8_E8M0, U8 (a power of two) | one value; a value per row; a value per matrix; a grid of blocks |
//!
//! Blocks are 128×128 by default and are cut off at the edges of the weight. Weights of a checkpoint without any scale
//! are plain casts. Activation scales are dropped: they mean nothing for a decoded weight.

#[cfg(feature = "encode")]
mod cast;
mod claim;
mod decoder;
mod expectation;
mod naming;
#[cfg(feature = "encode")]
mod quantiser;

pub(crate) use claim::Fp8;
pub(crate) use decoder::{Fp8Decoder, Fp8Format};
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
