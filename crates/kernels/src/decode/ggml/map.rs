//! Four-bit codes as indices into a fixed map of sixteen integers.
//!
//! A block has sixteen different values: they are computed and rounded once per block and looked up by code.

use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::packing::Packing;
use crate::base::simd::{ProductsTwice, SMALL_TABLE, Simd};

/// Sixteen bytes; the low nibbles are the first half of a group, the high nibbles the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitNibbles;

impl Packing for SplitNibbles {
    const NAME: &'static str = "split nibbles";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = split(16);
}

/// Twice eight bytes; of each eight the low nibbles are the first half of a half group.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwiceSplitNibbles;

impl Packing for TwiceSplitNibbles {
    const NAME: &'static str = "twice split nibbles";
    const BITS: usize = 4;
    const UNIT: usize = 8;
    const POSITIONS: [u8; GROUP] = split(8);
}

/// Positions of codes in runs of `bytes` bytes, the low nibbles of a run before its high nibbles.
const fn split(bytes: usize) -> [u8; GROUP] {
    let mut positions = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        let (run, place) = (i / (2 * bytes), i % (2 * bytes));
        positions[i] = (8 * (run * bytes + place % bytes) + 4 * (place / bytes)) as u8;
        i += 1;
    }
    positions
}

/// Sixteen packed bytes, padded to a group for the look-ups.
#[inline(always)]
pub(super) fn padded(packed: [u8; 16]) -> [u8; GROUP] {
    let mut group = [0; GROUP];
    group[..16].copy_from_slice(&packed);
    group
}

/// Rounds the values of the sixteen codes and looks the words up.
#[inline(always)]
pub(super) fn words_of<S: Simd, O: Output>(simd: S, values: &[f32; SMALL_TABLE], packed: [u8; 16]) -> [O::Word; GROUP] {
    let table = O::round_sixteen::<S, ProductsTwice>(simd, values);
    O::look_up_packed::<S, SplitNibbles>(simd, &table, &padded(packed))
}

/// The words of `map[code] * scale`.
#[inline(always)]
pub(super) fn scaled_words<S: Simd, O: Output>(
    simd: S,
    map: &[f32; SMALL_TABLE],
    scale: f32,
    packed: [u8; 16],
) -> [O::Word; GROUP] {
    if !O::TABLES {
        return O::round_products(simd, &scaled_values(simd, map, scale, packed));
    }
    // From memory: with the constants visible the compiler multiplies them one by one.
    words_of::<S, O>(simd, &in_memory(map).map(|entry| entry * scale), packed)
}

/// `map[code] * scale`.
#[inline(always)]
pub(super) fn scaled_values<S: Simd>(simd: S, map: &[f32; SMALL_TABLE], scale: f32, packed: [u8; 16]) -> [f32; GROUP] {
    map!(entry in look_up::<S, SplitNibbles>(simd, map, packed) => entry * scale)
}

/// `map[code]`.
#[inline(always)]
pub(super) fn look_up<S: Simd, P: Packing>(simd: S, map: &[f32; SMALL_TABLE], packed: [u8; 16]) -> [f32; GROUP] {
    let mut table = [0; SMALL_TABLE];
    for (word, entry) in table.iter_mut().zip(in_memory(map)) {
        *word = entry.to_bits();
    }
    map!(word in simd.values::<P>(&table, &padded(packed)) => f32::from_bits(word))
}
