//! The points of a grid that are nearest to a sub-block's sizes, and the scale that suits them.

use super::grid::Grid;
use super::lanes::{larger, nearest};
use super::levels::{bits, level};
use super::near::{Rough, Target, numbers};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// Scales that are tried, at most.
const TRIES: usize = 32;

/// A sub-block of `B` values in `G` points.
pub(super) struct Sizes<const B: usize, const G: usize> {
    pub(super) sizes: [f32; B],
    pub(super) weights: [f32; B],
    /// The square roots of the weights.
    roots: [f32; B],
    /// A bit for each negative value of eight.
    pub(super) signs: [u8; 4],
}

/// The candidate scales.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) levels: i32,
    /// Tries on either side of the largest level.
    pub(super) count: i32,
    pub(super) step: f32,
}

/// The points and the scale of a sub-block.
pub(super) struct Found<const G: usize> {
    pub(super) scale: f32,
    pub(super) points: [u16; G],
    pub(super) is_point: [bool; G],
}

impl<const B: usize, const G: usize> Sizes<B, G> {
    /// Sizes and signs; where their number must be even, the value that counts least changes its sign.
    #[inline(always)]
    pub(super) fn new(values: &[f32; B], weights: [f32; B], is_even: bool) -> Self {
        let mut sizes = [0.0; B];
        let mut signs = [0; 4];
        for (eight, sign) in signs.iter_mut().enumerate().take(B / 8) {
            for bit in 0..8 {
                let value = values[8 * eight + bit];
                let is_negative = value < 0.0;
                sizes[8 * eight + bit] = if is_negative { -value } else { value };
                *sign |= u8::from(is_negative) << bit;
            }
            if is_even && sign.count_ones() % 2 == 1 {
                let counts = |bit: usize| {
                    let value = values[8 * eight + bit];
                    weights[8 * eight + bit] * value * value
                };
                let (mut least, mut found) = (counts(0), 0);
                for bit in 1..8 {
                    if counts(bit) < least {
                        (least, found) = (counts(bit), bit);
                    }
                }
                sizes[8 * eight + found] = -sizes[8 * eight + found];
                *sign ^= 1 << found;
            }
            if is_even {
                *sign &= 127;
            }
        }
        let mut roots = weights;
        for root in &mut roots {
            *root = root.sqrt();
        }
        Self { sizes, weights, roots, signs }
    }

    #[inline(always)]
    pub(super) fn largest(&self) -> f32 {
        self.sizes[1..].iter().fold(self.sizes[0], |largest, &size| larger(largest, size))
    }

    /// Tries scales around the one that makes `largest` the highest level, beginning with what is known.
    #[inline(always)]
    pub(super) fn search<S: Simd, const D: usize>(
        &self,
        simd: S,
        grid: &Grid<D>,
        steps: Steps,
        largest: f32,
        mut found: Found<G>,
    ) -> Found<G> {
        let tries = (2 * steps.count + 1) as usize;
        let mut inverse = [0.0; TRIES];
        for (number, inverse) in inverse.iter_mut().enumerate() {
            let number = (number as i32 - steps.count) as f32;
            *inverse = ((2 * steps.levels - 1) as f32 + number * steps.step) / largest;
        }
        let mut points = [[0u16; TRIES]; G];
        let mut is_point = [[true; TRIES]; G];
        for point in 0..G {
            let points = &mut points[point];
            for element in 0..D {
                let size = self.sizes[D * point + element];
                for lane in 0..TRIES {
                    let level = nearest(0.5 * (inverse[lane] * size - 1.0)).min(steps.levels - 1).max(0);
                    points[lane] |= (level as u16) << (bits::<D>() * element);
                }
            }
            let target = self.target::<D>(point);
            let rough = Rough::new(&target, largest, grid.unit());
            for lane in 0..tries {
                let Some(around) = grid.around(points[lane]) else { continue };
                is_point[point][lane] = false;
                points[lane] = match &rough {
                    Some(rough) => around.roughly_nearest(simd, rough, &target, &odd::<D>(), inverse[lane]),
                    None => around.nearest(simd, &target.terms(&odd::<D>(), 1.0 / inverse[lane])),
                };
            }
        }
        let (mut sum_qx, mut sum_q2) = ([0.0; TRIES], [0.0; TRIES]);
        for index in 0..B {
            let (size, weight) = (self.sizes[index], self.weights[index]);
            for lane in 0..TRIES {
                let number = number::<D>(points[index / D][lane], index % D);
                sum_qx[lane] += weight * size * number;
                sum_q2[lane] += weight * number * number;
            }
        }
        let mut best = 0.0;
        for lane in 0..tries {
            if sum_q2[lane] > 0.0 && sum_qx[lane] * sum_qx[lane] > best * sum_q2[lane] {
                found.scale = sum_qx[lane] / sum_q2[lane];
                best = found.scale * sum_qx[lane];
                found.points = std::array::from_fn(|point| points[point][lane]);
                found.is_point = std::array::from_fn(|point| is_point[point][lane]);
            }
        }
        found
    }

    #[inline(always)]
    fn target<const D: usize>(&self, point: usize) -> Target<D> {
        Target::new(&self.sizes.as_chunks::<D>().0[point], &self.roots.as_chunks::<D>().0[point])
    }

    /// Finds points under the scale that was found, all of them or those that were between points, and the scale of these.
    #[inline(always)]
    pub(super) fn refit<S: Simd, const D: usize>(
        &self,
        simd: S,
        grid: &Grid<D>,
        levels: i32,
        is_for_all: bool,
        found: &mut Found<G>,
    ) {
        let inverse = 1.0 / found.scale;
        for point in 0..G {
            if found.is_point[point] && !is_for_all {
                continue;
            }
            let mut packed = 0;
            for (element, size) in self.sizes.as_chunks::<D>().0[point].iter().enumerate() {
                let level = nearest(0.5 * (inverse * size - 1.0)).min(levels - 1).max(0);
                packed |= (level as u16) << (bits::<D>() * element);
            }
            found.points[point] = match grid.around(packed) {
                None => packed,
                Some(around) => around.nearest(simd, &self.target::<D>(point).terms(&odd::<D>(), found.scale)),
            };
        }
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for index in 0..B {
            let number = number::<D>(found.points[index / D], index % D);
            sum_qx += self.weights[index] * self.sizes[index] * number;
            sum_q2 += self.weights[index] * number * number;
        }
        if sum_q2 > 0.0 {
            found.scale = sum_qx / sum_q2;
        }
    }
}

/// The values of the levels: the odd numbers.
const fn odd<const D: usize>() -> [f32; GROUP] {
    const { numbers::<D>(&[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]) }
}

/// The value of one level of a point.
#[inline(always)]
fn number<const D: usize>(point: u16, element: usize) -> f32 {
    f32::from(2 * level::<D>(point, element) + 1)
}
