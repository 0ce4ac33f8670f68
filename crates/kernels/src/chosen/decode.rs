//! Decoding kernels.

#![allow(clippy::too_many_arguments, reason = "the arguments of the generic kernels and their type parameters")]

use super::{Float8, Packed, Rounded, with_float8, with_packed, with_rounded};
use crate::base::float::E4m3;
use crate::base::level::Level;
use crate::base::packing::{AwqNibbles, HighNibbles};
use crate::decode::{Arithmetic, ggml};

/// [`scaled`](fn@crate::scaled).
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled(level: Level, float: Float8, to: Rounded, codes: &[u8], scale: f32, out: &mut [u8]) -> usize {
    with_float8!(float, F => with_rounded!(to, O => crate::scaled::<F, O>(level, codes, scale, out)))
}

/// [`scaled_runs`](crate::scaled_runs).
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled_runs(
    level: Level,
    float: Float8,
    to: Rounded,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    out: &mut [u8],
) -> usize {
    with_float8!(float, F => with_rounded!(to, O => crate::scaled_runs::<F, O>(level, codes, scales, run, out)))
}

/// [`scaled_block_rows`](crate::scaled_block_rows).
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled_block_rows(
    level: Level,
    float: Float8,
    to: Rounded,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    cols: usize,
    out: &mut [u8],
) -> usize {
    with_float8!(float, F => with_rounded!(to, O => {
        crate::scaled_block_rows::<F, O>(level, codes, scales, run, cols, out)
    }))
}

/// [`scaled_twice`](crate::scaled_twice).
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled_twice(level: Level, to: Rounded, codes: &[u8], first: f32, second: f32, out: &mut [u8]) -> usize {
    with_rounded!(to, O => crate::scaled_twice::<O>(level, codes, first, second, out))
}

/// [`coded_blocks`](crate::coded_blocks).
#[must_use = "output past the returned count keeps its old contents"]
pub fn coded_blocks(
    level: Level,
    packing: Packed,
    to: Rounded,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    ruled_blocks(level, Arithmetic::default(), packing, to, packed, map, zeros, scales, block, out)
}

/// [`coded_blocks`](crate::coded_blocks) of nibbles, the high half of a byte first.
#[must_use = "output past the returned count keeps its old contents"]
pub fn high_nibbles(
    level: Level,
    to: Rounded,
    packed: &[u8],
    map: &[f32; 16],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    with_rounded!(to, O => crate::coded_blocks::<HighNibbles, O>(level, packed, map, &[], scales, block, out))
}

/// [`ruled_blocks`](crate::ruled_blocks).
#[must_use = "output past the returned count keeps its old contents"]
pub fn ruled_blocks(
    level: Level,
    rule: Arithmetic,
    packing: Packed,
    to: Rounded,
    packed: &[u8],
    map: &[f32; 16],
    offsets: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    with_packed!(packing, P => with_rounded!(to, O => {
        crate::ruled_blocks::<P, O>(level, rule, packed, map, offsets, scales, block, out)
    }))
}

/// [`coded_indexed`](crate::coded_indexed).
#[must_use = "output past the returned count keeps its old contents"]
pub fn coded_indexed(
    level: Level,
    packing: Packed,
    to: Rounded,
    packed: &[u8],
    groups: &[u32],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    with_packed!(packing, P => with_rounded!(to, O => {
        crate::coded_indexed::<P, O>(level, packed, groups, zeros, scales, out)
    }))
}

/// [`affine_codes`](crate::affine_codes).
#[must_use = "output past the returned count keeps its old contents"]
pub fn affine_codes(
    level: Level,
    packing: Packed,
    to: Rounded,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    with_packed!(packing, P => with_rounded!(to, O => crate::affine_codes::<P, O>(level, packed, zeros, scales, out)))
}

/// [`affine_codes`](crate::affine_codes) of AWQ's nibbles.
#[must_use = "output past the returned count keeps its old contents"]
pub fn awq_codes(level: Level, to: Rounded, packed: &[u8], zeros: &[f32], scales: &[f32], out: &mut [u8]) -> usize {
    with_rounded!(to, O => crate::affine_codes::<AwqNibbles, O>(level, packed, zeros, scales, out))
}

/// [`affine_fields`](crate::affine_fields).
#[must_use = "output past the returned count keeps its old contents"]
pub fn affine_fields(
    level: Level,
    to: Rounded,
    words: &[u8],
    shift: u32,
    bits: u32,
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    with_rounded!(to, O => crate::affine_fields::<O>(level, words, shift, bits, zeros, scales, out))
}

/// [`unpack_codes`](crate::unpack_codes).
#[must_use = "output past the returned count keeps its old contents"]
pub fn unpack_codes(level: Level, packing: Packed, packed: &[u8], out: &mut [f32]) -> usize {
    with_packed!(packing, P => crate::unpack_codes::<P>(level, packed, out))
}

/// [`unpack_codes`](crate::unpack_codes) of AWQ's nibbles.
#[must_use = "output past the returned count keeps its old contents"]
pub fn unpack_awq(level: Level, packed: &[u8], out: &mut [f32]) -> usize {
    crate::unpack_codes::<AwqNibbles>(level, packed, out)
}

/// [`transpose_columns`](crate::transpose_columns).
#[must_use = "output past the returned count keeps its old contents"]
pub fn transpose_columns(
    level: Level,
    to: Rounded,
    elements: &[u8],
    rows: usize,
    cols: usize,
    out: &mut [u8],
    stride: usize,
    at: usize,
) -> usize {
    with_rounded!(to, O => crate::transpose_columns::<O>(level, elements, rows, cols, out, stride, at))
}

/// [`decode_blocks_times`](ggml::decode_blocks_times) of NVFP4.
#[must_use = "output past the returned count keeps its old contents"]
pub fn nvfp4_times(level: Level, to: Rounded, blocks: &[u8], factor: f32, out: &mut [u8]) -> usize {
    with_rounded!(to, O => ggml::decode_blocks_times::<ggml::Nvfp4, O>(level, blocks, factor, out))
}

/// [`widen_format8`](crate::widen_format8) of E4M3, the type of stored scales.
#[must_use = "output past the returned count keeps its old contents"]
pub fn widen_e4m3(level: Level, bytes: &[u8], out: &mut [f32]) -> usize {
    crate::widen_format8::<E4m3>(level, bytes, out)
}
