//! The encoders of IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S, whose magnitudes are grid points and whose signs are
//! stored apart: `quantize_row_iq2_xxs_impl`, `quantize_row_iq2_xs_impl`, `quantize_row_iq2_s_impl`,
//! `quantize_row_iq3_xxs_impl` and `quantize_row_iq3_s_impl` of ggml.
//!
//! A sub-block's magnitudes are divided by several candidate scales; each candidate gives the nearest points, and least
//! squares a scale for those points. The candidates are evaluated together, one per lane.

use super::grid::{Grid, LazyGrid};
use super::grid_fit::{GridFit, Magnitudes, ScaleCandidates};
use super::lanes::{GROUP_MAX_EPS, QK_K, c_max, nearest_int, sum_of_squares};
use super::search::make_qp_quants;
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, tables};

static IQ2_XXS: LazyGrid<8> = LazyGrid::new(&tables::IQ2_XXS, 3, 2, 16.0);
static IQ2_XS: LazyGrid<8> = LazyGrid::new(&tables::IQ2_XS, 3, 2, 18.0);
static IQ2_S: LazyGrid<8> = LazyGrid::new(&tables::IQ2_S, 3, 1, 40.0);
static IQ3_XXS: LazyGrid<4> = LazyGrid::new(&tables::IQ3_XXS, 8, 2, 10.0);
static IQ3_S: LazyGrid<4> = LazyGrid::new(&tables::IQ3_S, 8, 3, 16.0);

/// A sub-block as it is written: scale, grid indices and sign bits.
struct EncodedSubBlock<const G: usize> {
    scale: f32,
    points: [u16; G],
    signs: [u8; 4],
}

/// Makes the scale positive by flipping all signs instead.
#[inline(always)]
fn with_positive_scale<const D: usize, const G: usize>(
    grid: &Grid<D>,
    found: GridFit<G>,
    mut signs: [u8; 4],
    mask: u8,
) -> EncodedSubBlock<G> {
    let is_negative = found.scale < 0.0;
    if is_negative {
        signs = signs.map(|signs| !signs & mask);
    }
    EncodedSubBlock {
        scale: if is_negative { -found.scale } else { found.scale },
        points: found.points.map(|point| grid.index(point)),
        signs,
    }
}

/// `importance · sqrt(variance + value²)`.
#[inline(always)]
fn importance_weights<const B: usize>(values: &[f32; B], importance: &[f32], variance: f32) -> [f32; B] {
    let mut weights = [0.0; B];
    for (weight, (value, importance)) in weights.iter_mut().zip(values.iter().zip(importance)) {
        *weight = importance * (variance + value * value).sqrt();
    }
    weights
}

/// The four-bit code of a sub-block's scale.
#[inline(always)]
fn scale_code(scale: f32, inverse: f32) -> u8 {
    nearest_int(0.5 * (inverse * scale - 1.0)).clamp(0, 15) as u8
}

/// The fit before the search: every point the first of the grid, and this scale.
#[inline(always)]
fn initial_fit<const D: usize, const G: usize>(grid: &Grid<D>, scale: f32, is_on_grid: bool) -> GridFit<G> {
    GridFit { scale, points: [grid.first(); G], is_on_grid: [is_on_grid; G] }
}

const IQ2_CANDIDATES: ScaleCandidates = ScaleCandidates { levels: 3, count: 9, step: 0.1 };

super_blocks!(Iq2Xxs, 66, iq2_xxs);

#[inline(always)]
fn iq2_xxs<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 66]) {
    // ggml requires an importance matrix for this type.
    let importance = importance.unwrap_or(&[1.0; QK_K]);
    const CANDIDATES: ScaleCandidates = ScaleCandidates { levels: 3, count: 6, step: 0.1 };
    let grid = IQ2_XXS.get();
    let variance = sum_of_squares(values) / QK_K as f32;
    let (mut words, mut scales, mut largest_scale) = ([[0u32; 2]; 8], [0.0; 8], 0.0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block =
            Magnitudes::<32, 4>::new(values, importance_weights(values, &importance[32 * index..], variance), true);
        if block.largest() < GROUP_MAX_EPS {
            continue;
        }
        let (first, _) = make_qp_quants(&block.magnitudes, &block.weights, 4);
        let largest = first * 3.0;
        if largest <= 0.0 {
            continue;
        }
        let mut found = block.search(simd, grid, CANDIDATES, largest, initial_fit(grid, first, true));
        if found.scale > 0.0 {
            block.refit(simd, grid, 3, true, &mut found);
        }
        let encoded = with_positive_scale(grid, found, block.signs, 127);
        for point in 0..4 {
            words[index][0] |= u32::from(encoded.points[point]) << (8 * point);
            words[index][1] |= u32::from(encoded.signs[point]) << (7 * point);
        }
        scales[index] = encoded.scale;
        largest_scale = c_max(largest_scale, encoded.scale);
    }
    out.fill(0);
    if largest_scale == 0.0 {
        return;
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    for ((out, words), sub_scale) in out[2..].as_chunks_mut::<8>().0.iter_mut().zip(words).zip(scales) {
        out[..4].copy_from_slice(&words[0].to_le_bytes());
        let code = u32::from(scale_code(sub_scale, 1.0 / scale));
        out[4..].copy_from_slice(&(words[1] | code << 28).to_le_bytes());
    }
}

super_blocks!(Iq2Xs, 74, iq2_xs);

#[inline(always)]
fn iq2_xs<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 74]) {
    // ggml requires an importance matrix for this type.
    let importance = importance.unwrap_or(&[1.0; QK_K]);
    let grid = IQ2_XS.get();
    let variance = sum_of_squares(values) / QK_K as f32;
    let (mut words, mut scales, mut largest_scale) = ([0u16; 32], [0.0; 16], 0.0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let block =
            Magnitudes::<16, 2>::new(values, importance_weights(values, &importance[16 * index..], variance), true);
        let largest = block.largest();
        if largest < GROUP_MAX_EPS {
            continue;
        }
        let encoded = fit_iq2(simd, grid, &block, largest, 127);
        for point in 0..2 {
            words[2 * index + point] = encoded.points[point] | u16::from(encoded.signs[point]) << 9;
        }
        scales[index] = encoded.scale;
        largest_scale = c_max(largest_scale, encoded.scale);
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
    for (index, sub_scale) in scales.iter().enumerate() {
        out[66 + index / 2] |= scale_code(*sub_scale, 1.0 / scale) << (index % 2 * 4);
    }
}

/// Fits a sub-block of IQ2_XS or IQ2_S.
#[inline(always)]
fn fit_iq2<S: Simd>(simd: S, grid: &Grid<8>, block: &Magnitudes<16, 2>, largest: f32, mask: u8) -> EncodedSubBlock<2> {
    let mut found = block.search(simd, grid, IQ2_CANDIDATES, largest, initial_fit(grid, largest / 5.0, true));
    if found.is_on_grid.contains(&false) && found.scale > 0.0 {
        block.refit(simd, grid, 3, false, &mut found);
    }
    with_positive_scale(grid, found, block.signs, mask)
}

super_blocks!(Iq2S, 82, iq2_s);

#[inline(always)]
fn iq2_s<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 82]) {
    const EPS: f32 = 1e-8;
    let grid = IQ2_S.get();
    let variance = 2.0 * sum_of_squares(values) / QK_K as f32;
    let (mut scales, mut largest_scale) = ([0.0; 16], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => importance_weights(values, &importance[16 * index..], variance),
            None => {
                let mut weights = [0.0; 16];
                for (weight, value) in weights.iter_mut().zip(values) {
                    *weight = 0.25 * variance + value * value;
                }
                weights
            }
        };
        let block = Magnitudes::<16, 2>::new(values, weights, false);
        let largest = block.largest();
        if largest < EPS {
            continue;
        }
        let encoded = fit_iq2(simd, grid, &block, largest, 255);
        for point in 0..2 {
            let place = 2 * index + point;
            out[2 + place] = encoded.points[point] as u8;
            out[34 + place] = encoded.signs[point];
            out[66 + place / 4] |= (encoded.points[point] >> 8 << (2 * (place % 4))) as u8;
        }
        scales[index] = encoded.scale;
        largest_scale = c_max(largest_scale, encoded.scale);
    }
    write_scales(&scales, largest_scale, 0.9875, out, 74);
}

/// Writes the scale of a super-block, times a `correction`, and at `place` the four-bit scales of its sub-blocks.
#[inline(always)]
fn write_scales(scales: &[f32], largest: f32, correction: f32, out: &mut [u8], place: usize) {
    if largest == 0.0 {
        return;
    }
    let scale = largest / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale * correction).to_le_bytes());
    for (index, sub_scale) in scales.iter().enumerate() {
        out[place + index / 2] |= scale_code(*sub_scale, 1.0 / scale) << (index % 2 * 4);
    }
}

super_blocks!(Iq3Xxs, 98, iq3_xxs);

/// The weights of a sub-block of the IQ3 types; without importance, the squares.
#[inline(always)]
fn iq3_weights(values: &[f32; 32], importance: Option<&[f32]>, index: usize, variance: f32) -> [f32; 32] {
    match importance {
        Some(importance) => importance_weights(values, &importance[32 * index..], variance),
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
fn iq3_xxs<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 98]) {
    const CANDIDATES: ScaleCandidates = ScaleCandidates { levels: 8, count: 15, step: 0.2 };
    const EPS: f32 = 1e-8;
    let grid = IQ3_XXS.get();
    let variance = 2.0 * sum_of_squares(values) / QK_K as f32;
    let (mut words, mut scales, mut largest_scale) = ([0u32; 8], [0.0; 8], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Magnitudes::<32, 8>::new(values, iq3_weights(values, importance, index, variance), true);
        let largest = block.largest();
        if largest < EPS {
            continue;
        }
        let mut found = block.search(simd, grid, CANDIDATES, largest, initial_fit(grid, largest / 15.0, true));
        if found.is_on_grid.contains(&false) && found.scale > 0.0 {
            block.refit(simd, grid, 8, false, &mut found);
        }
        let encoded = with_positive_scale(grid, found, block.signs, 127);
        for point in 0..8 {
            out[2 + 8 * index + point] = encoded.points[point] as u8;
        }
        for (byte, signs) in encoded.signs.iter().enumerate() {
            words[index] |= u32::from(*signs) << (7 * byte);
        }
        scales[index] = encoded.scale;
        largest_scale = c_max(largest_scale, encoded.scale);
    }
    if largest_scale == 0.0 {
        return out.fill(0);
    }
    let scale = largest_scale / 31.0;
    out[..2].copy_from_slice(&f16::encode(scale * 1.0125).to_le_bytes());
    for ((out, word), sub_scale) in out[66..].as_chunks_mut::<4>().0.iter_mut().zip(words).zip(scales) {
        *out = (word | u32::from(scale_code(sub_scale, 1.0 / scale)) << 28).to_le_bytes();
    }
}

super_blocks!(Iq3S, 110, iq3_s);

#[inline(always)]
fn iq3_s<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 110]) {
    const CANDIDATES: ScaleCandidates = ScaleCandidates { levels: 8, count: 9, step: 0.2 };
    let grid = IQ3_S.get();
    let variance = 2.0 * sum_of_squares(values) / QK_K as f32;
    let (mut scales, mut largest_scale) = ([0.0; 8], 0.0);
    out.fill(0);
    // Like ggml, all-zero sub-blocks are skipped without leaving a gap: the codes and signs of later ones move up, the
    // ninth bits do not.
    let mut slot = 0;
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Magnitudes::<32, 8>::new(values, iq3_weights(values, importance, index, variance), false);
        let largest = block.largest();
        if largest == 0.0 {
            continue;
        }
        let mut found = block.search(simd, grid, CANDIDATES, largest, initial_fit(grid, largest / 15.0, false));
        if found.is_on_grid.contains(&false) && found.scale > 0.0 {
            block.refit(simd, grid, 8, true, &mut found);
        }
        let encoded = with_positive_scale(grid, found, block.signs, 255);
        for point in 0..8 {
            out[2 + 8 * slot + point] = encoded.points[point] as u8;
            out[66 + index] |= (encoded.points[point] >> 8 << point) as u8;
        }
        out[74 + 4 * slot..78 + 4 * slot].copy_from_slice(&encoded.signs);
        slot += 1;
        scales[index] = encoded.scale;
        largest_scale = c_max(largest_scale, encoded.scale);
    }
    write_scales(&scales, largest_scale, 1.033, out, 106);
}
