//! The grid points and the scale of a sub-block, as `quantize_row_iq2_xxs_impl` of ggml and its relatives search for
//! them: for each candidate scale the nearest points, then the scale of least squares for those points.

use super::grid::Grid;
use super::lanes::{c_max, nearest_int};
use super::levels::{bits, level};
use super::neighbours::{ByteDistance, Target, level_values};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// Candidate scales, at most.
const MAX_CANDIDATES: usize = 32;

/// The magnitudes of a sub-block of `B` values, encoded as `G` points.
pub(super) struct Magnitudes<const B: usize, const G: usize> {
    pub(super) magnitudes: [f32; B],
    pub(super) weights: [f32; B],
    /// The square roots of the weights.
    roots: [f32; B],
    /// The sign bits, one byte per eight values.
    pub(super) signs: [u8; 4],
}

/// The candidate inverse scales: `(2 · levels − 1 + k · step) / largest` for `k` in `−count..=count`.
#[derive(Clone, Copy)]
pub(super) struct ScaleCandidates {
    pub(super) levels: i32,
    /// Candidates on either side of the largest level.
    pub(super) count: i32,
    pub(super) step: f32,
}

/// The points and the scale found for a sub-block.
pub(super) struct GridFit<const G: usize> {
    pub(super) scale: f32,
    pub(super) points: [u16; G],
    pub(super) is_on_grid: [bool; G],
}

impl<const B: usize, const G: usize> Magnitudes<B, G> {
    /// Splits values into magnitudes and signs. Where the signs of eight values must have even parity, the value with
    /// the smallest weighted square changes its sign.
    #[inline(always)]
    pub(super) fn new(values: &[f32; B], weights: [f32; B], even_parity: bool) -> Self {
        let mut magnitudes = [0.0; B];
        let mut signs = [0; 4];
        for (eight, sign) in signs.iter_mut().enumerate().take(B / 8) {
            for bit in 0..8 {
                let value = values[8 * eight + bit];
                let is_negative = value < 0.0;
                magnitudes[8 * eight + bit] = if is_negative { -value } else { value };
                *sign |= u8::from(is_negative) << bit;
            }
            if even_parity && sign.count_ones() % 2 == 1 {
                let weighted_square = |bit: usize| {
                    let value = values[8 * eight + bit];
                    weights[8 * eight + bit] * value * value
                };
                let (mut least, mut found) = (weighted_square(0), 0);
                for bit in 1..8 {
                    if weighted_square(bit) < least {
                        (least, found) = (weighted_square(bit), bit);
                    }
                }
                magnitudes[8 * eight + found] = -magnitudes[8 * eight + found];
                *sign ^= 1 << found;
            }
            if even_parity {
                *sign &= 127;
            }
        }
        let mut roots = weights;
        for root in &mut roots {
            *root = root.sqrt();
        }
        Self { magnitudes, weights, roots, signs }
    }

    #[inline(always)]
    pub(super) fn largest(&self) -> f32 {
        self.magnitudes[1..].iter().fold(self.magnitudes[0], |largest, &magnitude| c_max(largest, magnitude))
    }

    /// Tries scales around the one that maps `largest` to the highest level and keeps the best; `found` is
    /// the initial fit.
    #[inline(always)]
    pub(super) fn search<S: Simd, const D: usize>(
        &self,
        simd: S,
        grid: &Grid<D>,
        range: ScaleCandidates,
        largest: f32,
        mut found: GridFit<G>,
    ) -> GridFit<G> {
        let candidates = (2 * range.count + 1) as usize;
        let mut iscale = [0.0; MAX_CANDIDATES];
        for (k, iscale) in iscale.iter_mut().enumerate() {
            let k = (k as i32 - range.count) as f32;
            *iscale = ((2 * range.levels - 1) as f32 + k * range.step) / largest;
        }
        let mut points = [[0u16; MAX_CANDIDATES]; G];
        let mut is_on_grid = [[true; MAX_CANDIDATES]; G];
        for point in 0..G {
            let points = &mut points[point];
            for element in 0..D {
                let magnitude = self.magnitudes[D * point + element];
                for lane in 0..MAX_CANDIDATES {
                    let level = nearest_int(0.5 * (iscale[lane] * magnitude - 1.0)).min(range.levels - 1).max(0);
                    points[lane] |= (level as u16) << (bits::<D>() * element);
                }
            }
            let target = self.target::<D>(point);
            let bytes = ByteDistance::new(&target, largest, grid.unit());
            for lane in 0..candidates {
                let Some(neighbours) = grid.neighbours(points[lane]) else { continue };
                is_on_grid[point][lane] = false;
                points[lane] = match &bytes {
                    Some(bytes) => neighbours.nearest_by_bytes(simd, bytes, &target, &odd_values::<D>(), iscale[lane]),
                    None => neighbours.nearest(simd, &target.terms(&odd_values::<D>(), 1.0 / iscale[lane])),
                };
            }
        }
        let (mut sum_qx, mut sum_q2) = ([0.0; MAX_CANDIDATES], [0.0; MAX_CANDIDATES]);
        for index in 0..B {
            let (magnitude, weight) = (self.magnitudes[index], self.weights[index]);
            for lane in 0..MAX_CANDIDATES {
                let value = level_value::<D>(points[index / D][lane], index % D);
                sum_qx[lane] += weight * magnitude * value;
                sum_q2[lane] += weight * value * value;
            }
        }
        let mut best = 0.0;
        for lane in 0..candidates {
            if sum_q2[lane] > 0.0 && sum_qx[lane] * sum_qx[lane] > best * sum_q2[lane] {
                found.scale = sum_qx[lane] / sum_q2[lane];
                best = found.scale * sum_qx[lane];
                found.points = std::array::from_fn(|point| points[point][lane]);
                found.is_on_grid = std::array::from_fn(|point| is_on_grid[point][lane]);
            }
        }
        found
    }

    #[inline(always)]
    fn target<const D: usize>(&self, point: usize) -> Target<D> {
        Target::new(&self.magnitudes.as_chunks::<D>().0[point], &self.roots.as_chunks::<D>().0[point])
    }

    /// Finds the points again under the scale found, for all tuples or for those that were not on the grid, then the
    /// scale of least squares for them.
    #[inline(always)]
    pub(super) fn refit<S: Simd, const D: usize>(
        &self,
        simd: S,
        grid: &Grid<D>,
        levels: i32,
        all: bool,
        found: &mut GridFit<G>,
    ) {
        let iscale = 1.0 / found.scale;
        for point in 0..G {
            if found.is_on_grid[point] && !all {
                continue;
            }
            let mut packed = 0;
            for (element, magnitude) in self.magnitudes.as_chunks::<D>().0[point].iter().enumerate() {
                let level = nearest_int(0.5 * (iscale * magnitude - 1.0)).min(levels - 1).max(0);
                packed |= (level as u16) << (bits::<D>() * element);
            }
            found.points[point] = match grid.neighbours(packed) {
                None => packed,
                Some(neighbours) => {
                    neighbours.nearest(simd, &self.target::<D>(point).terms(&odd_values::<D>(), found.scale))
                }
            };
        }
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for index in 0..B {
            let value = level_value::<D>(found.points[index / D], index % D);
            sum_qx += self.weights[index] * self.magnitudes[index] * value;
            sum_q2 += self.weights[index] * value * value;
        }
        if sum_q2 > 0.0 {
            found.scale = sum_qx / sum_q2;
        }
    }
}

/// The values of the levels: odd integers.
const fn odd_values<const D: usize>() -> [f32; GROUP] {
    const { level_values::<D>(&[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]) }
}

/// The value of one element of a point.
#[inline(always)]
fn level_value<const D: usize>(point: u16, element: usize) -> f32 {
    f32::from(2 * level::<D>(point, element) + 1)
}
