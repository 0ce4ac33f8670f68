//! Points of a grid with signs, and scales of scales: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S.
//!
//! A sub-block's sizes are divided by a number of scales, each gives the points nearest to them, and the scale that least
//! squares find for those points. The scales that are tried lie side by side, one in each lane.

use super::grid::{Grid, Lazy};
use super::lanes::{SMALLEST, larger, nearest};
use super::search::of_scales;
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, tables};

/// Values of a super-block.
const SUPER: usize = 256;
/// Scales that are tried, at most.
const TRIES: usize = 32;

static IQ2_XXS: Lazy<8, 2> = Lazy::new(&tables::IQ2_XXS, 3, 2);
static IQ2_XS: Lazy<8, 2> = Lazy::new(&tables::IQ2_XS, 3, 2);
static IQ2_S: Lazy<8, 2> = Lazy::new(&tables::IQ2_S, 3, 1);
static IQ3_XXS: Lazy<4, 3> = Lazy::new(&tables::IQ3_XXS, 8, 2);
static IQ3_S: Lazy<4, 3> = Lazy::new(&tables::IQ3_S, 8, 3);

/// A sub-block of `B` values in `G` points.
struct Sizes<const B: usize, const G: usize> {
    sizes: [f32; B],
    weights: [f32; B],
    /// The square roots of the weights.
    roots: [f32; B],
    /// A bit for each negative value of eight.
    signs: [u8; 4],
}

/// What is tried.
#[derive(Clone, Copy)]
struct Steps {
    levels: i32,
    /// Tries on either side of the largest level.
    count: i32,
    step: f32,
}

/// What was found for a sub-block.
struct Found<const G: usize> {
    scale: f32,
    points: [u16; G],
    is_point: [bool; G],
}

impl<const B: usize, const G: usize> Sizes<B, G> {
    /// Sizes and signs; where their number must be even, the value that counts least changes its sign.
    #[inline(always)]
    fn new(values: &[f32; B], weights: [f32; B], is_even: bool) -> Self {
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
        Self { sizes, weights, roots: weights.map(f32::sqrt), signs }
    }

    #[inline(always)]
    fn largest(&self) -> f32 {
        self.sizes[1..].iter().fold(self.sizes[0], |largest, &size| larger(largest, size))
    }

    /// Tries scales around the one that makes `largest` the highest level, beginning with what is known.
    #[inline(always)]
    fn search<const D: usize, const BITS: usize>(
        &self,
        grid: &Grid<D, BITS>,
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
        let mut packed = [[0u16; TRIES]; G];
        for (point, packed) in packed.iter_mut().enumerate() {
            for element in 0..D {
                let size = self.sizes[D * point + element];
                for lane in 0..TRIES {
                    let level = nearest(0.5 * (inverse[lane] * size - 1.0)).min(steps.levels - 1).max(0);
                    packed[lane] |= (level as u16) << (BITS * element);
                }
            }
        }
        let mut points = [[0u16; TRIES]; G];
        let mut is_point = [[true; TRIES]; G];
        for point in 0..G {
            let (sizes, roots) = (self.of_point::<D>(&self.sizes, point), self.of_point::<D>(&self.roots, point));
            for lane in 0..tries {
                points[point][lane] = grid.find(packed[point][lane]).unwrap_or_else(|around| {
                    is_point[point][lane] = false;
                    around.nearest(sizes, roots, 1.0 / inverse[lane], f32::from)
                });
            }
        }
        let (mut sum_qx, mut sum_q2) = ([0.0; TRIES], [0.0; TRIES]);
        for index in 0..B {
            let (size, weight) = (self.sizes[index], self.weights[index]);
            let mut numbers = [0.0; TRIES];
            for lane in 0..tries {
                numbers[lane] = (2 * grid.level(points[index / D][lane], index % D) + 1) as f32;
            }
            for lane in 0..TRIES {
                let number = numbers[lane];
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
    fn of_point<'a, const D: usize>(&self, all: &'a [f32; B], point: usize) -> &'a [f32; D] {
        &all.as_chunks::<D>().0[point]
    }

    /// Finds points under the scale that was found, all of them or those that were between points, and the scale of these.
    #[inline(always)]
    fn refit<const D: usize, const BITS: usize>(
        &self,
        grid: &Grid<D, BITS>,
        levels: i32,
        is_for_all: bool,
        found: &mut Found<G>,
    ) {
        let inverse = 1.0 / found.scale;
        for point in 0..G {
            if found.is_point[point] && !is_for_all {
                continue;
            }
            let (sizes, roots) = (self.of_point::<D>(&self.sizes, point), self.of_point::<D>(&self.roots, point));
            let mut packed = 0;
            for (element, size) in sizes.iter().enumerate() {
                let level = nearest(0.5 * (inverse * size - 1.0)).min(levels - 1).max(0);
                packed |= (level as u16) << (BITS * element);
            }
            found.points[point] =
                grid.find(packed).unwrap_or_else(|around| around.nearest(sizes, roots, found.scale, f32::from));
        }
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for index in 0..B {
            let number = (2 * grid.level(found.points[index / D], index % D) + 1) as f32;
            sum_qx += self.weights[index] * self.sizes[index] * number;
            sum_q2 += self.weights[index] * number * number;
        }
        if sum_q2 > 0.0 {
            found.scale = sum_qx / sum_q2;
        }
    }
}

/// A sub-block with its sign bits, ready to be written.
struct Written<const G: usize> {
    scale: f32,
    points: [u16; G],
    signs: [u8; 4],
}

/// A scale below zero turns all signs instead.
#[inline(always)]
fn upright<const G: usize>(found: Found<G>, mut signs: [u8; 4], mask: u8) -> Written<G> {
    let is_below = found.scale < 0.0;
    if is_below {
        signs = signs.map(|signs| !signs & mask);
    }
    Written { scale: if is_below { -found.scale } else { found.scale }, points: found.points, signs }
}

/// The sum of squares, in order.
#[inline(always)]
fn squares(values: &[f32; SUPER]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
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
fn nothing<const G: usize>(scale: f32, is_point: bool) -> Found<G> {
    Found { scale, points: [0; G], is_point: [is_point; G] }
}

const NEAR_2: Steps = Steps { levels: 3, count: 9, step: 0.1 };

impl EncodeBlocks for Iq2Xxs {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        for (index, (values, out)) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<66>().0).enumerate()
        {
            iq2_xxs(values, part(importance, index * SUPER, SUPER).unwrap_or(&[1.0; SUPER]), out);
        }
    }
}

#[inline(always)]
fn iq2_xxs(values: &[f32; SUPER], importance: &[f32], out: &mut [u8; 66]) {
    const STEPS: Steps = Steps { levels: 3, count: 6, step: 0.1 };
    let grid = IQ2_XXS.get();
    let variance = squares(values) / SUPER as f32;
    let (mut words, mut scales, mut largest_scale) = ([[0u32; 2]; 8], [0.0; 8], 0.0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Sizes::<32, 4>::new(values, weighted(values, &importance[32 * index..], variance), true);
        if block.largest() < SMALLEST {
            continue;
        }
        let (first, _) = of_scales(&block.sizes, &block.weights, 4);
        let largest = first * 3.0;
        if largest <= 0.0 {
            continue;
        }
        let mut found = block.search(grid, STEPS, largest, nothing(first, true));
        if found.scale > 0.0 {
            block.refit(grid, 3, true, &mut found);
        }
        let written = upright(found, block.signs, 127);
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

impl EncodeBlocks for Iq2Xs {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        for (index, (values, out)) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<74>().0).enumerate()
        {
            iq2_xs(values, part(importance, index * SUPER, SUPER).unwrap_or(&[1.0; SUPER]), out);
        }
    }
}

#[inline(always)]
fn iq2_xs(values: &[f32; SUPER], importance: &[f32], out: &mut [u8; 74]) {
    let grid = IQ2_XS.get();
    let variance = squares(values) / SUPER as f32;
    let (mut words, mut scales, mut largest_scale) = ([0u16; 32], [0.0; 16], 0.0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let block = Sizes::<16, 2>::new(values, weighted(values, &importance[16 * index..], variance), true);
        let largest = block.largest();
        if largest < SMALLEST {
            continue;
        }
        let written = near_2(grid, &block, largest, 127);
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
fn near_2(grid: &Grid<8, 2>, block: &Sizes<16, 2>, largest: f32, mask: u8) -> Written<2> {
    let mut found = block.search(grid, NEAR_2, largest, nothing(largest / 5.0, true));
    if found.is_point.contains(&false) && found.scale > 0.0 {
        block.refit(grid, 3, false, &mut found);
    }
    upright(found, block.signs, mask)
}

impl EncodeBlocks for Iq2S {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        for (index, (values, out)) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<82>().0).enumerate()
        {
            iq2_s(values, part(importance, index * SUPER, SUPER), out);
        }
    }
}

#[inline(always)]
fn iq2_s(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 82]) {
    const LEAST: f32 = 1e-8;
    let grid = IQ2_S.get();
    let variance = 2.0 * squares(values) / SUPER as f32;
    let (mut scales, mut largest_scale) = ([0.0; 16], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<16>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => weighted(values, &importance[16 * index..], variance),
            None => values.map(|value| 0.25 * variance + value * value),
        };
        let block = Sizes::<16, 2>::new(values, weights, false);
        let largest = block.largest();
        if largest < LEAST {
            continue;
        }
        let written = near_2(grid, &block, largest, 255);
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

impl EncodeBlocks for Iq3Xxs {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        for (index, (values, out)) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<98>().0).enumerate()
        {
            iq3_xxs(values, part(importance, index * SUPER, SUPER), out);
        }
    }
}

/// Weights of a block of the IQ3 types.
#[inline(always)]
fn weights_3(values: &[f32; 32], importance: Option<&[f32]>, index: usize, variance: f32) -> [f32; 32] {
    match importance {
        Some(importance) => weighted(values, &importance[32 * index..], variance),
        None => values.map(|value| value * value),
    }
}

#[inline(always)]
fn iq3_xxs(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 98]) {
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
        let mut found = block.search(grid, STEPS, largest, nothing(largest / 15.0, true));
        if found.is_point.contains(&false) && found.scale > 0.0 {
            block.refit(grid, 8, false, &mut found);
        }
        let written = upright(found, block.signs, 127);
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

impl EncodeBlocks for Iq3S {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        for (index, (values, out)) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<110>().0).enumerate()
        {
            iq3_s(values, part(importance, index * SUPER, SUPER), out);
        }
    }
}

#[inline(always)]
fn iq3_s(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 110]) {
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
        let mut found = block.search(grid, STEPS, largest, nothing(largest / 15.0, false));
        if found.is_point.contains(&false) && found.scale > 0.0 {
            block.refit(grid, 8, true, &mut found);
        }
        let written = upright(found, block.signs, 255);
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
