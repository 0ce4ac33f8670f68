//! Four Over Six: blocks of four-bit codes whose range is 4 or 6, whichever fits better.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.quantized_weight_values` | U8 `[rows, cols / 2]` | codes of the padded weight, two in a byte, low nibble first |
//! | `X.quantized_weight_scale_factors` | F8_E4M3 (`mxfp4`: F8_E8M0) | a scale per 16 (32) values, in cuBLAS tiles for `nvfp4` and `mxfp4` |
//! | `X.quantized_weight_amax` | F32, one value | the largest magnitude of the weight |
//! | `X.quantized_weight_metadata` | I64 or I32 `[6]` | rows and columns, the padded ones, and whether codes are packed and scales in tiles |
//!
//! The configuration names the type of the codes and the rule of the scales. The product of code and scale is rounded to
//! half precision; `mxfp4` is that, the others are `product * amax / (top * range)`, where the top is 6 (4 for the rule
//! `static_4`, 7 for `nvint4`) and the range 448 for static rules and `if4`, otherwise 256. A scale of `if4` whose sign bit
//! is set marks a block of integers times 6/7.

mod claim;
mod half_scales;
mod mixed;
mod spec;

pub(crate) use claim::FourOverSix;
