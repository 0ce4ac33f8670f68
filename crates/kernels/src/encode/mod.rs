//! Kernels that encode values as codes, the inverse of [`decode`](crate::decode).
//!
//! The scale of a block is computed first, from [`block_largest`]; then its values are encoded. [`Codebook`] represents
//! four-bit codes by the fifteen limits between them, so that encoding counts limits and gives the same code at every
//! CPU level. [`group_codes`] follows the libraries that divide by a scale and round.

mod codebook;
mod distance;
mod four_bit;
pub mod ggml;
mod grouped;
mod input;
mod largest;
mod pack;
mod range;
mod ratio;
mod rows;
mod target;

pub use codebook::Codebook;
pub use distance::{DISTANCE_LANES, DistanceSums, add_distance};
pub use four_bit::{SMALLEST_SCALE, Scaling, nearest_codes};
pub use ggml::{EncodeBlocks, encode_rows};
pub use grouped::{Factor, Goal, Ratio, group_codes};
pub use input::Input;
pub use largest::{block_largest, block_largest_number};
pub use pack::pack_bits;
pub use range::block_range;
pub use rows::{Steps, row_codes};
