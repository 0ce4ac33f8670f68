//! The formats of the compressed-tensors library. The configuration's `config_groups` name the format of a weight, and
//! the stored tensors are checked against it.
//!
//! | format | codes | scales | other companions |
//! |---|---|---|---|
//! | `pack-quantized` | `X.weight_packed` I32 `[.., out, words]`, 1 to 8 bits | `X.weight_scale` F32, BF16, F16 | `X.weight_shape` I64 or I32, the shape of the weight; `X.weight_zero_point`; `X.weight_g_idx` I32 `[in]` |
//! | `int-quantized`, `naive-quantized` | `X.weight` I8 `[.., out, in]` | the same | `X.weight_zero_point` I8 |
//! | `nvfp4-pack-quantized` | `X.weight_packed` U8 `[out, in/2]` | F8_E4M3 `[out, in/16]` | `X.weight_global_scale` F32, one value: scales are divided by it |
//! | `mxfp4-pack-quantized` | the same | U8 exponents `[out, in/32]` | |
//! | `mxfp6-pack-quantized` | `X.weight_packed` U8 `[out, 3/4 in]` | the same | |
//! | `marlin-24` | `X.weight_packed` I32 `[in/32, words]`, see [`marlin24`] | `X.scale_packed` F16 | `X.meta` I16 |
//! | `sparse-bitmask`, `sparse-24-bitmask` | `X.compressed`, see [`sparse`] | `X.weight_scale` over eight-bit floats | `X.bitmask` U8, `X.shape` and `X.row_offsets` I64 |
//!
//! A weight has one scale, one per row `[.., out, 1]`, one per group `[.., out, in/size]` or one per block. Codes are
//! stored unsigned; a value is `(code - middle - zero point) * scale`. Zero points per row or group are packed down the
//! columns as I32, others are I8 in the shape of the scales. Codes of 3, 5, 6 and 7 bits are packed without gaps since
//! version 0.20 and padded to whole words before: the number of words distinguishes the two, or else the version.
//!
//! The library calculates in the type of the scales; here every step is F32, rounded once at the end. `float-quantized`
//! and `mxfp8-quantized` weights are decoded by FP8.

mod activations;
mod claim;
#[cfg(feature = "encode")]
mod described;
#[cfg(feature = "encode")]
mod encoders;
mod fp4;
mod fp6;
mod int8;
mod marlin24;
mod pack;
mod packing;
mod parts;
#[cfg(feature = "encode")]
mod preset;
#[cfg(feature = "encode")]
mod quantiser;
#[cfg(feature = "encode")]
mod scale_rules;
mod scales;
mod sparse;
mod spec;

pub(crate) use claim::CompressedTensors;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;

/// The method as configurations name it.
const METHOD: &str = "compressed-tensors";
