//! ComfyUI's formats: each weight is described by a [marker](crate::quant_config::Markers), a tensor or an entry of the
//! file's metadata, that names its format.
//!
//! | format | parts next to `X.weight` | value |
//! |---|---|---|
//! | `float8_*` | `weight_scale` | decoded by [`fp8`](super::fp8), with the scale arrangement of [`Float8`] |
//! | `nvfp4` | `weight_scale` in cuBLAS tiles, `weight_scale_2` | `e2m1 * (scale_2 * scale)`, the high nibble first |
//! | `mxfp8` | `weight_scale` in cuBLAS tiles | `e4m3 * 2^(scale - 127)`; a scale of 0 is zero |
//! | `int8_tensorwise`, `int8_blockwise` | `weight_scale` | `code * scale`, rotated back if the marker has `convrot` |
//! | `convrot_w4a4` | `weight_scale` | `code * scale`, rotated back |
//! | `asym_w4a8_int8` | `weight_s_rel`, `weight_s_channel`, `weight_codebook`, `weight_correction` | [`levels`] |
//! | `awq_w4a16` | `weight_scale`, `weight_zeros` | `(code - 8) * scale + zero` |
//! | `svdquant_w4a4` | `weight_scale`, `weight_proj_down`, `weight_proj_up`, `weight_smooth_factor` | [`low_rank`] |
//!
//! Unknown formats are refused by name. Marked weights are claimed before every other scheme, because most of these
//! layouts have the names and shapes of another format: scales in tiles are as many as scales in row order.

mod build;
mod claim;
mod float8;
mod format;
mod levels;
mod low_rank;
#[cfg(feature = "encode")]
mod quantiser;
#[cfg(feature = "encode")]
mod scale_rules;
mod scaled;
mod svdquant;
#[cfg(feature = "encode")]
mod tiled_encoder;
mod w4a8;
mod weight;

pub(crate) use claim::Comfy;
pub(crate) use float8::Float8;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
