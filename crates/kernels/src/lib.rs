//! The number kernels of anamnesis: pure functions over slices, compiled once per CPU level.
//!
//! Nothing here reads files or allocates while it decodes. A kernel takes the [`Level`] it shall run at, its input slices and
//! its output slice; it works through as many elements as all of them hold and returns how many entries of the output slice it
//! wrote: bytes where it is bytes, numbers where it is `f32`. The caller holds that against the length it wanted.
//!
//! | room | holds |
//! |---|---|
//! | [`base`] | shared by all: CPU levels, float formats, outputs ([`Bf16`], [`F16`], [`F32`]), packings, the walk over slices |
//! | [`decode`] | codes to numbers: eight-bit floats, packed integers, the blocks of GGUF files |
//! | [`encode`] | numbers back to codes |
//! | [`mod@cast`] | `f32` to and from everything else |
//! | [`chosen`] | all of them as plain functions, with formats and outputs as values |
//!
//! Every level gives the same bits for every input, NaN included: arithmetic yields [`float::DEFAULT_NAN`] and no other, except
//! that a NaN code keeps its sign and payload under a scale that is a number. Casts without arithmetic keep both.
//! Arithmetic is `f32`, one rounding per operation, never fused.

#[macro_use]
pub mod base;

pub mod cast;
pub mod chosen;
pub mod decode;
pub mod encode;

pub use base::GROUP;
pub use base::float;
pub use base::float::{E4m3, E4m3Fnuz, E5m2, E5m2Fnuz, E8m0, Format8};
pub use base::level::Level;
pub use base::output::{Bf16, F16, F32, Output};
pub use base::packing::{AwqNibbles, Bits2, Bits3, Bytes, HighNibbles, LowNibbles, Packing, SignedBytes};
pub use cast::{TopExponent, narrow, round_slice, widen_bf16, widen_e8m0, widen_f16, widen_f32, widen_format8};
pub use decode::{
    Arithmetic, Formula, Step, affine_codes, affine_fields, cast, coded_blocks, coded_indexed, ggml, nested_scales,
    ruled_blocks, scaled, scaled_block_rows, scaled_runs, scaled_twice, spread_bits, spread_plane, spread_words,
    transpose_awq, transpose_columns, transpose_words, unpack_codes, untile_marlin,
};
pub use encode::{
    Codebook, DISTANCE_LANES, DistanceSums, EncodeBlocks, Factor, Goal, Input, Ratio, SMALLEST_SCALE, Scaling, Steps,
    add_distance, block_largest, block_largest_number, block_range, encode_rows, group_codes, nearest_codes, pack_bits,
    row_codes,
};
