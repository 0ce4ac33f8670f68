//! Numbers to codes: the way back from [`coded_blocks`](crate::coded_blocks) and [`scaled_twice`](crate::scaled_twice).
//!
//! A block's scale comes first, from [`block_largest`]; then its values become codes. [`Codebook`] holds what four-bit
//! codes stand for as the fifteen limits between them, so that encoding is counting limits: no code is decided by
//! arithmetic that could differ between levels. [`group_codes`] calculates them as the libraries do that divide by a scale and
//! round.

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
