//! VPTQ: vectors of outputs from learned centroids, with a residual, outlier columns, and scales per input.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.indices` | I32 `[groups, ceil(out / v), words]` | a row is a stream of `group_size` entries: the main index low, the residual one above |
//! | `X.centroids.weight`, `X.res_centroids.weight` | F16 or BF16 `[groups, n * v]` | vectors of `v` outputs |
//! | `X.outlier_indices` | I16 `[1, ceil(out / v), columns]` | entries of the outlier columns, which come before all others |
//! | `X.outlier_centroids.weight` | F16 or BF16 `[1, n * v]` | |
//! | `X.perm` | I16 `[in]` | the input of each stored column |
//! | `X.weight_scale`, `X.weight_bias` | F16 or BF16 `[in]` | |
//!
//! `value = (main + residual) * weight_scale + weight_bias`, each step in F32. The lengths and counts are in
//! `config_for_layers` of the configuration only.

mod claim;
mod decoder;
mod layer;

pub(crate) use claim::Vptq;
