//! Codes to numbers.
//!
//! | file | decodes |
//! |---|---|
//! | [`scaled`](mod@scaled), [`runs`], [`block`] | eight-bit floats times scales |
//! | [`coded`], [`affine`] | packed codes with zero points and scales |
//! | [`spread`] | nothing yet: it unpacks codes of any layout, one to a byte |
//! | `extent`, `halves`, `mirror` | element counts, blocks of half a group, tables for symmetric maps |
//! | `operands` | zero points and scales with canonical NaNs |
//! | [`rule`] | how value, offset and scale become a number |
//! | [`twice`], [`nested`] | eight-bit integers, and scales stored as codes |
//! | [`ggml`] | the block types of GGUF files |
//! | [`transpose`] | nothing yet: it transposes packed words and nibbles |
//! | [`untile`] | nothing yet: it brings codes from the tiles of Marlin into rows |
//! | [`columns`] | nothing any more: it transposes decoded elements |

pub mod affine;
pub mod block;
pub mod coded;
pub mod columns;
mod extent;
pub mod ggml;
mod halves;
mod mirror;
pub mod nested;
mod operands;
pub mod rule;
pub mod runs;
pub mod scaled;
pub mod spread;
pub mod transpose;
pub mod twice;
pub mod untile;

pub use affine::{affine_codes, affine_fields, coded_indexed, unpack_codes};
pub use block::scaled_block_rows;
pub use coded::{coded_blocks, ruled_blocks};
pub use columns::transpose_columns;
pub use nested::nested_scales;
pub use rule::{Arithmetic, Formula, Step};
pub use runs::scaled_runs;
pub use scaled::{cast, scaled};
pub use spread::{spread_bits, spread_plane, spread_words};
pub use transpose::{transpose_awq, transpose_words};
pub use twice::scaled_twice;
pub use untile::untile_marlin;
