//! Points of a grid with signs, and scales of scales: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, by `quantize_row_iq2_xxs_impl`,
//! `quantize_row_iq2_xs_impl`, `quantize_row_iq2_s_impl`, `quantize_row_iq3_xxs_impl` and `quantize_row_iq3_s_impl` of ggml.
//!
//! A sub-block's magnitudes are divided by a number of candidate scales; each gives the nearest points, and least squares a
//! scale for those points. The candidates are tried together, one in each lane.

use super::grid::{Grid, Lazy};
use super::lanes::{SMALLEST, SUPER, larger, nearest, squares};
use super::points::{Found, Sizes, Steps};
use super::search::make_qp_quants;
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, tables};

static IQ2_XXS: Lazy<8> = Lazy::new(&tables::IQ2_XXS, 3, 2, 16.0);
static IQ2_XS: Lazy<8> = Lazy::new(&tables::IQ2_XS, 3, 2, 18.0);
static IQ2_S: Lazy<8> = Lazy::new(&tables::IQ2_S, 3, 1, 40.0);
static IQ3_XXS: Lazy<4> = Lazy::new(&tables::IQ3_XXS, 8, 2, 10.0);
static IQ3_S: Lazy<4> = Lazy::new(&tables::IQ3_S, 8, 3, 16.0);

/// A sub-block with its sign bits, ready to be written.
struct Written<const G: usize> {
    scale: f32,
    points: [u16; G],
    signs: [u8; 4],
}

/// A scale below zero turns all signs instead.
#[inline(always)]
fn upright<const D: usize, const G: usize>(
    grid: &Grid<D>,
    found: Found<G>,
    mut signs: [u8; 4],
    mask: u8,
) -> Written<G> {
    let is_below = found.scale < 0.0;
    if is_below {
        signs = signs.map(|signs| !signs & mask);
    }
    Written {
        scale: if is_below { -found.scale } else { found.scale },
        points: found.points.map(|point| grid.number(point)),
        signs,
    }
}

/// Weights by importance and size.
#[inline(always)]
fn weighted<const B: usize>(values: &[f32; B], importance: &[f32], variance: f32) -> [f32; B] {
    let mut weights = [0.0; B];
    for (weight, (value, importance)) in weights.iter_mut().zip(values.iter().zip(importance)) {
        *weight = importance * (variance + value * value).sqrt();
    }
    weights
}

/// The four-bit code of a sub-block's scale.
#[inline(always)]
fn scale_code(scale: f32, inverse: f32) -> u8 {
    nearest(0.5 * (inverse * scale - 1.0)).clamp(0, 15) as u8
}

/// Nothing found yet: the first point, and this scale.
#[inline(always)]
fn nothing<const D: usize, const G: usize>(grid: &Grid<D>, scale: f32, is_point: bool) -> Found<G> {
    Found { scale, points: [grid.first(); G], is_point: [is_point; G] }
}

const NEAR_2: Steps = Steps { levels: 3, count: 9, step: 0.1 };

super_blocks!(Iq2Xxs, 66, iq2_xxs);

#[inline(always)]
fn iq2_xxs<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 66]) {
    // The type cannot be encoded without an importance.
    let importance = importance.unwrap_or(&[1.0; SUPER]);
    const STEPS: Steps = Steps { levels: 3, count: 6, step: 0.1 };
    let grid = IQ2_XXS.get();
    let variance = squares(values) / SUPER as f32;
    let (mut words, mut scales, mut largest_scale) = ([[0u32; 2]; 8], [0.0; 8], 0.0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Sizes::<32, 4>::new(values, weighted(values, &importance[32 * index..], variance), true);
        if block.largest() < SMALLEST {
            continue;
        }
        let (first, _) = make_qp_quants(&block.sizes, &block.weights, 4);
        let largest = first * 3.0;
        if largest <= 0.0 {
            continue;
        }
        let mut found = block.search(simd, grid, STEPS, largest, nothing(grid, first, true));
        if found.scale > 0.0 {
            block.refit(simd, grid, 3, true, &mut found);
        }
        let written = upright(grid, found, block.signs, 127);
        for point in 0..4 {
            words[index][0] |= u32::from(written.points[point]) << (8 * point);
            words[index][1] |= u32::from(written.signs[point]) << (7 * point);
        }
        scales[index] = written.scale;
        largest_scale = larger(largest_scale, written.scale);
    }
    out.fill(0);
    if largest_scale == 0.0 {
        return;
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    for ((out, words), of_block) in out[2..].as_chunks_mut::<8>().0.iter_mut().zip(words).zip(scales) {
        out[..4].copy_from_slice(&words[0].to_le_bytes());
        let code = u32::from(scale_code(of_block, 1.0 / scale));
        out[4..].copy_from_slice(&(words[1] | code << 28).to_le_bytes());
    }
}

super_blocks!(Iq2Xs, 74, iq2_xs);

#[inline(always)]
fn iq2_xs<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 74]) {
    // The type cannot be encoded without an importance.
    let importance = importance.unwrap_or(&[1.0; SUPER]);
    let grid = IQ2_XS.get();
    let variance = squares(values) / SUPER as f32;
    let (mut words, mut scales, mut largest_scale) = ([0u16; 32], [0.0; 16], 0.0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let block = Sizes::<16, 2>::new(values, weighted(values, &importance[16 * index..], variance), true);
        let largest = block.largest();
        if largest < SMALLEST {
            continue;
        }
        let written = near_2(simd, grid, &block, largest, 127);
        for point in 0..2 {
            words[2 * index + point] = written.points[point] | u16::from(written.signs[point]) << 9;
        }
        scales[index] = written.scale;
        largest_scale = larger(largest_scale, written.scale);
    }
    out.fill(0);
    if largest_scale == 0.0 {
        return;
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    for (out, word) in out[2..66].as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
    for (index, of_block) in scales.iter().enumerate() {
        out[66 + index / 2] |= scale_code(*of_block, 1.0 / scale) << (index % 2 * 4);
    }
}

/// A sub-block of two points.
#[inline(always)]
fn near_2<S: Simd>(simd: S, grid: &Grid<8>, block: &Sizes<16, 2>, largest: f32, mask: u8) -> Written<2> {
    let mut found = block.search(simd, grid, NEAR_2, largest, nothing(grid, largest / 5.0, true));
    if found.is_point.contains(&false) && found.scale > 0.0 {
        block.refit(simd, grid, 3, false, &mut found);
    }
    upright(grid, found, block.signs, mask)
}

super_blocks!(Iq2S, 82, iq2_s);

#[inline(always)]
fn iq2_s<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 82]) {
    const LEAST: f32 = 1e-8;
    let grid = IQ2_S.get();
    let variance = 2.0 * squares(values) / SUPER as f32;
    let (mut scales, mut largest_scale) = ([0.0; 16], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => weighted(values, &importance[16 * index..], variance),
            None => {
                let mut weights = [0.0; 16];
                for (weight, value) in weights.iter_mut().zip(values) {
                    *weight = 0.25 * variance + value * value;
                }
                weights
            }
        };
        let block = Sizes::<16, 2>::new(values, weights, false);
        let largest = block.largest();
        if largest < LEAST {
            continue;
        }
        let written = near_2(simd, grid, &block, largest, 255);
        for point in 0..2 {
            let place = 2 * index + point;
            out[2 + place] = written.points[point] as u8;
            out[34 + place] = written.signs[point];
            out[66 + place / 4] |= (written.points[point] >> 8 << (2 * (place % 4))) as u8;
        }
        scales[index] = written.scale;
        largest_scale = larger(largest_scale, written.scale);
    }
    if largest_scale == 0.0 {
        return;
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale * 0.9875).to_le_bytes());
    for (index, of_block) in scales.iter().enumerate() {
        out[74 + index / 2] |= scale_code(*of_block, 1.0 / scale) << (index % 2 * 4);
    }
}

super_blocks!(Iq3Xxs, 98, iq3_xxs);

/// Weights of a block of the IQ3 types.
#[inline(always)]
fn weights_3(values: &[f32; 32], importance: Option<&[f32]>, index: usize, variance: f32) -> [f32; 32] {
    match importance {
        Some(importance) => weighted(values, &importance[32 * index..], variance),
        None => {
            let mut weights = [0.0; 32];
            for (weight, value) in weights.iter_mut().zip(values) {
                *weight = value * value;
            }
            weights
        }
    }
}

#[inline(always)]
fn iq3_xxs<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 98]) {
    const STEPS: Steps = Steps { levels: 8, count: 15, step: 0.2 };
    const LEAST: f32 = 1e-8;
    let grid = IQ3_XXS.get();
    let variance = 2.0 * squares(values) / SUPER as f32;
    let (mut words, mut scales, mut largest_scale) = ([0u32; 8], [0.0; 8], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Sizes::<32, 8>::new(values, weights_3(values, importance, index, variance), true);
        let largest = block.largest();
        if largest < LEAST {
            continue;
        }
        let mut found = block.search(simd, grid, STEPS, largest, nothing(grid, largest / 15.0, true));
        if found.is_point.contains(&false) && found.scale > 0.0 {
            block.refit(simd, grid, 8, false, &mut found);
        }
        let written = upright(grid, found, block.signs, 127);
        for point in 0..8 {
            out[2 + 8 * index + point] = written.points[point] as u8;
        }
        for (eight, signs) in written.signs.iter().enumerate() {
            words[index] |= u32::from(*signs) << (7 * eight);
        }
        scales[index] = written.scale;
        largest_scale = larger(largest_scale, written.scale);
    }
    if largest_scale == 0.0 {
        return out.fill(0);
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale * 1.0125).to_le_bytes());
    for ((out, word), of_block) in out[66..].as_chunks_mut::<4>().0.iter_mut().zip(words).zip(scales) {
        *out = (word | u32::from(scale_code(of_block, 1.0 / scale)) << 28).to_le_bytes();
    }
}

super_blocks!(Iq3S, 110, iq3_s);

#[inline(always)]
fn iq3_s<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 110]) {
    const STEPS: Steps = Steps { levels: 8, count: 9, step: 0.2 };
    let grid = IQ3_S.get();
    let variance = 2.0 * squares(values) / SUPER as f32;
    let (mut scales, mut largest_scale) = ([0.0; 8], 0.0);
    out.fill(0);
    // Sub-blocks that are all zero take no room: those behind them move up, except for the ninth bits of their points.
    let mut room = 0;
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Sizes::<32, 8>::new(values, weights_3(values, importance, index, variance), false);
        let largest = block.largest();
        if largest == 0.0 {
            continue;
        }
        let mut found = block.search(simd, grid, STEPS, largest, nothing(grid, largest / 15.0, false));
        if found.is_point.contains(&false) && found.scale > 0.0 {
            block.refit(simd, grid, 8, true, &mut found);
        }
        let written = upright(grid, found, block.signs, 255);
        for point in 0..8 {
            out[2 + 8 * room + point] = written.points[point] as u8;
            out[66 + index] |= (written.points[point] >> 8 << point) as u8;
        }
        out[74 + 4 * room..78 + 4 * room].copy_from_slice(&written.signs);
        room += 1;
        scales[index] = written.scale;
        largest_scale = larger(largest_scale, written.scale);
    }
    if largest_scale == 0.0 {
        return;
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale * 1.033).to_le_bytes());
    for (index, of_block) in scales.iter().enumerate() {
        out[106 + index / 2] |= scale_code(*of_block, 1.0 / scale) << (index % 2 * 4);
    }
}
