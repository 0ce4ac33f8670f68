//! Points of a grid: the values of several elements, named by one index.
//!
//! A grid's table has each point as an index per element into the few levels that its elements take.

use super::fields::{choose, in_halves, negate};
use crate::GROUP;
use crate::simd::Simd;

/// The points of a table of `N` elements each, as bytes.
pub(super) const fn points<const N: usize, const COUNT: usize>(
    table: &[u16; COUNT],
    levels: &[u8],
) -> [[u8; N]; COUNT] {
    let bits = if levels.len() > 4 { 3 } else { 2 };
    let mut points = [[0; N]; COUNT];
    let mut i = 0;
    while i < COUNT {
        let mut element = 0;
        while element < N {
            points[i][element] = levels[table[i] as usize >> (bits * element) & ((1 << bits) - 1)];
            element += 1;
        }
        i += 1;
    }
    points
}

/// The points of a group. Indices count from the grid's beginning again past its end.
#[inline(always)]
pub(super) fn group<const N: usize, const COUNT: usize, const POINTS: usize>(
    grid: &[[u8; N]; COUNT],
    indices: [usize; POINTS],
) -> [u8; GROUP] {
    let mut bytes = [0; GROUP];
    for (to, index) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(indices) {
        *to = grid[index % COUNT];
    }
    bytes
}

/// Eight signs of which seven are given: the number of set bits is even.
#[inline(always)]
pub(super) fn even_signs(seven: u32) -> u32 {
    let seven = seven & 0x7F;
    seven | (seven.count_ones() & 1) << 7
}

/// The signs of a group from four times seven bits, lowest first.
#[inline(always)]
pub(super) fn four_even_signs(bits: u32) -> u32 {
    even_signs(bits) | even_signs(bits >> 7) << 8 | even_signs(bits >> 14) << 16 | even_signs(bits >> 21) << 24
}

/// Points times a scale for each half of the group, with signs.
#[inline(always)]
pub(super) fn signed_values<S: Simd>(simd: S, points: &[u8; GROUP], scales: [f32; 2], signs: u32) -> [f32; GROUP] {
    negate(in_halves(simd.unsigned(points), scales), signs)
}

/// Points, offset by an eighth up or down where a bit is set, times a scale for each half of the group.
#[inline(always)]
pub(super) fn offset_values<S: Simd>(simd: S, points: &[u8; GROUP], scales: [f32; 2], down: u32) -> [f32; GROUP] {
    let offsets = choose(down, -0.125, 0.125);
    let mut values = simd.signed(points);
    for i in 0..GROUP {
        values[i] += offsets[i];
    }
    in_halves(values, scales)
}
