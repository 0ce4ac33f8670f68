//! Measurements: statistics, differences and hashes of all tensors. The sink at the end of the pipeline measures tiles
//! instead of writing them.

mod blocks;
mod diff;
mod differences;
mod hash;
mod histogram;
mod listing;
mod moments;
mod paired;
mod scales;
mod stats;
mod tails;
mod tensors;
mod wide;

pub use diff::{DiffOptions, DiffOutcome, ModelDiff, TensorDiff, ValueDiff};
pub use hash::{HashForm, ModelHash, Sha256Digest, TensorHash};
pub use histogram::Histogram;
pub use listing::HashDifference;
pub use stats::{BadScales, FiniteStats, ModelStats, TensorStats};
