//! Decoding: codes to values.
//!
//! | file | holds |
//! |---|---|
//! | [`scaled`](mod@scaled), [`runs`], [`block`] | decoders of eight-bit floats with scales |
//! | [`coded`], [`affine`] | decoders of packed codes with zero points and scales |
//! | [`spread`] | unpacking of codes of any layout into bytes |
//! | `extent`, `halves`, `mirror` | element counts, blocks of half a group, tables of symmetric maps |
//! | `operands` | zero points and scales with canonical NaNs |
//! | [`rule`] | the dequantisation formulas |
//! | [`twice`], [`nested`] | decoders of eight-bit integers and of scales stored as codes |
//! | [`ggml`] | decoders of the block types of GGUF files |
//! | [`masked`] | values in the places of a bit mask |
//! | [`transpose`] | transposition of packed words and nibbles, before decoding |
//! | [`untile`] | conversion of Marlin tiles to rows, before decoding |
//! | [`trellis`] | decoder of EXL3's tiles |
//! | [`columns`] | transposition of decoded elements |
//! | [`mod@products`] | matrix products in a fixed order, for rotated weights |

pub mod affine;
pub mod block;
pub mod coded;
pub mod columns;
mod extent;
pub mod ggml;
mod halves;
pub mod masked;
mod mirror;
pub mod nested;
mod operands;
pub mod products;
pub mod rule;
pub mod runs;
pub mod scaled;
pub mod spread;
pub mod transpose;
pub mod trellis;
pub mod twice;
pub mod untile;

pub use affine::{affine_codes, affine_fields, coded_indexed, unpack_codes};
pub use block::scaled_block_rows;
pub use coded::{coded_blocks, ruled_blocks};
pub use columns::transpose_columns;
pub use masked::place_masked;
pub use nested::nested_scales;
pub use operands::canonical_nans;
pub use products::products;
pub use rule::{Arithmetic, Formula, Step};
pub use runs::scaled_runs;
pub use scaled::{cast, scaled};
pub use spread::{spread_bits, spread_plane, spread_words};
pub use transpose::{transpose_awq, transpose_words};
pub use trellis::{TILE_SIDE, TrellisCodebook, decode_trellis};
pub use twice::scaled_twice;
pub use untile::untile_marlin;
