//! AQLM: each group of weights is a sum of vectors from learned codebooks, times a scale per group of outputs.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.codes` | I8 or I16 `[out / og, in / ig, books]` | an entry of each codebook, in two's complement |
//! | `X.codebooks` | F16 or BF16 `[books, 2^bits, og, ig]` | |
//! | `X.scales` | F16 or BF16 `[out / og, 1, 1, 1]` | |
//!
//! Entries are added in ascending order of the codebooks and multiplied by the scale, each step in F32. Row `y` and column
//! `x` of an entry of group `(i, j)` are row `i * og + y` and column `j * ig + x` of the weight.

mod claim;
mod decoder;

pub(crate) use claim::Aqlm;
