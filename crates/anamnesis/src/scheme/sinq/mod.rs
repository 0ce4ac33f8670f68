//! SINQ: `(code - zero) * scale` over groups, like HQQ, times a second scale per column.
//!
//! | stored | type | |
//! |---|---|---|
//! | `X.W_q` | U8 or I32 | the codes of a matrix whose rows are groups, in bit planes like HQQ's |
//! | `X.meta.scale`, `X.meta.zero` | F16 | a scale and a zero point per group |
//! | `X.meta.scale.{x,s,m}`, `X.meta.zero.{x,s,m}` | U8, F16, F16 | the same as codes: `x * s + m`, in half precision |
//! | `X.meta.scale2` | F16 | a scale per column |
//!
//! Bits, packing, group size, shape and method are in a sidecar, `model.safetensors.index.json.meta.json`.
//!
//! Groups are runs of a row, or rows of square tiles: then scales are three-dimensional, `[tiles, rows, 1]`, and every
//! tile has its own second scales. Methods with `nf4` or `nf3` look codes up and calculate in half precision, all others in
//! F32.

mod claim;
mod parts;
mod weight;

pub(crate) use claim::Sinq;
