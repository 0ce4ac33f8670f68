//! Grids of the IQ types: one index selects a point, the values of several elements.
//!
//! A table entry holds, per element of the point, an index into the levels of the grid.

use super::fields::{in_halves, negate};
use crate::base::GROUP;

/// The points of a table, `N` elements each.
pub(super) const fn points<const N: usize, const COUNT: usize>(
    table: &[u16; COUNT],
    levels: &[f32],
) -> [[f32; N]; COUNT] {
    let bits = if levels.len() > 4 { 3 } else { 2 };
    let mut points = [[0.0; N]; COUNT];
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

/// The points of a group, by indices modulo the size of the grid.
#[inline(always)]
pub(super) fn group<const N: usize, const COUNT: usize, const POINTS: usize>(
    grid: &[[f32; N]; COUNT],
    indices: [usize; POINTS],
) -> [f32; GROUP] {
    let mut elements = [0.0; GROUP];
    for (to, index) in elements.as_chunks_mut::<N>().0.iter_mut().zip(indices) {
        *to = grid[index % COUNT];
    }
    elements
}

/// Eight signs from seven; the eighth makes the number of set bits even (`ksigns_iq2xs` of ggml).
#[inline(always)]
pub(super) fn even_signs(seven: u32) -> u32 {
    let seven = seven & 0x7F;
    seven | (seven.count_ones() & 1) << 7
}

/// The signs of a group from four fields of seven bits, lowest first.
#[inline(always)]
pub(super) fn four_even_signs(bits: u32) -> u32 {
    even_signs(bits) | even_signs(bits >> 7) << 8 | even_signs(bits >> 14) << 16 | even_signs(bits >> 21) << 24
}

/// Points times a scale for each half of the group, with signs unless the scale of the block is NaN: then all products are
/// that NaN.
#[inline(always)]
pub(super) fn signed_values(points: [f32; GROUP], scales: [f32; 2], signs: u32, of_block: f32) -> [f32; GROUP] {
    let signed = if of_block.is_nan() { 0 } else { u32::MAX };
    negate(in_halves(points, scales), signs & signed)
}
