//! EXL2 of exllamav2: groups of inputs with different bit widths, under four-bit scales. Layers are stored as `[in, out]`.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.q_weight` | I32 `[words, out]` | codes packed down the columns, group after group, without gaps |
//! | `X.q_scale` | I32 `[groups, out / 8]` | four-bit scale codes |
//! | `X.q_scale_max` | F16 `[groups]` | the largest scale of each group, times 256 |
//! | `X.q_groups` | I16 `[2 groups]` | bits and first row of words of each group |
//! | `X.q_invperm` | I32 `[in]` | the packed row of each input |
//! | `X.q_perm` | I32 `[in]` | the inverse of that, which loaders do not read |
//!
//! `scale = f16((code + 1)² * f16(max / 256))`, `weight = f16((code - 2^(bits - 1)) * scale)`: F32 is the exact widening of
//! half precision. Outputs are padded to multiples of 32 and cropped to the sizes in the model's configuration.

mod claim;
mod decoder;
mod groups;

pub(crate) use claim::Exl2;
