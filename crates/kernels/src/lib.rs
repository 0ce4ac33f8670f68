//! The numeric kernels of anamnesis: pure functions over slices, compiled for each CPU level.
//!
//! No kernel reads files, and decoders do not allocate. A kernel takes the [`Level`] to run at, its input slices and
//! its output slice; it processes as many elements as all of them hold and returns how many entries of the output it
//! wrote (bytes for `[u8]`, values for `[f32]`). The caller compares that count with the length it expects.
//!
//! | room | holds |
//! |---|---|
//! | [`base`] | shared: CPU levels, float formats, outputs ([`Bf16`], [`F16`], [`F32`]), packings, the walk over slices |
//! | [`decode`] | codes to values: eight-bit floats, packed integers, ggml blocks |
//! | `encode` | values to codes (feature `encode`) |
//! | [`mod@cast`] | conversions between `f32` and other float types |
//! | `measure` | moments, histograms and differences of values (feature `encode`) |
//! | [`chosen`] | all of them as plain functions, with formats and outputs as enum values |
//!
//! Every level gives the same bits for every input. Arithmetic that yields NaN yields [`float::DEFAULT_NAN`], except
//! that a NaN code keeps its sign and payload under a scale that is not NaN. Casts without arithmetic keep both. Arithmetic is
//! `f32`, with one rounding per operation and no fused multiply-add.

#![cfg_attr(
    not(all(feature = "encode", feature = "levels")),
    allow(dead_code, unused_imports, reason = "encoders and other levels use these")
)]

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
pub mod base;

pub mod cast;
pub mod chosen;
pub mod decode;
#[cfg(feature = "encode")]
pub mod encode;
#[cfg(feature = "encode")]
pub mod measure;

pub use base::GROUP;
pub use base::float;
pub use base::float::{E4m3, E4m3Fnuz, E5m2, E5m2Fnuz, E8m0, Format8};
pub use base::level::Level;
pub use base::output::{Bf16, F16, F32, Output};
pub use base::packing::{AwqNibbles, Bits2, Bits3, Bytes, HighNibbles, LowNibbles, Packing, SignedBytes};
pub use cast::{
    TopExponent, half_times, narrow, round_slice, widen_bf16, widen_e8m0, widen_f16, widen_f32, widen_format8,
};
pub use decode::{
    Arithmetic, Formula, Step, TILE_SIDE, TrellisCodebook, affine_codes, affine_fields, canonical_nans, cast,
    coded_blocks, coded_indexed, decode_trellis, ggml, nested_scales, place_masked, products, ruled_blocks, scaled,
    scaled_block_rows, scaled_runs, scaled_twice, spread_bits, spread_plane, spread_words, transpose_awq,
    transpose_columns, transpose_words, unpack_codes, untile_marlin,
};
#[cfg(feature = "encode")]
pub use encode::{
    Codebook, DISTANCE_LANES, DistanceSums, EncodeBlocks, Factor, Goal, Input, Ratio, SMALLEST_SCALE, Scaling, Steps,
    add_distance, block_largest, block_largest_number, block_range, encode_rows, group_codes, nearest_codes, pack_bits,
    row_codes,
};
