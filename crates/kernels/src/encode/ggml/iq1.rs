//! Three values with an offset, as points of a grid, and scales of scales: IQ1_S, IQ1_M.
//!
//! The values of a sub-block are sorted, and every way to cut them into a low, a middle and a high part is tried, with the
//! offset up and down. What the best of them gives is moved to points of the grid.

use super::grid::{Grid, Lazy};
use super::lanes::{SUPER, larger, nearest, squares};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq1M, Iq1S, tables};

static GRID: Lazy<8, 2> = Lazy::new(&tables::IQ1, 3, 3);

/// The three values with the offset up and down.
const UP: [f32; 3] = [-1.0 + 0.125, 0.125, 1.0 + 0.125];
const DOWN: [f32; 3] = [-1.0 - 0.125, -0.125, 1.0 - 0.125];

/// Ways to cut that are tried together: the second cut at any place.
const CUTS: usize = 33;

/// The values of a sub-block and what they weigh.
struct Weighed<const B: usize> {
    values: [f32; B],
    weights: [f32; B],
    /// Places in the order of their values; those of equal ones in their own order.
    order: [u8; B],
}

/// The best way to cut.
#[derive(Clone, Copy)]
struct Cut {
    score: f32,
    scale: f32,
    first: usize,
    second: usize,
    /// Which offsets.
    way: usize,
}

impl Cut {
    /// Takes any of these ways to cut that is better: what it makes of each second cut, way by way.
    #[inline(always)]
    fn improve<const WAYS: usize>(
        best: &mut Option<Self>,
        first: usize,
        last: usize,
        sum_qx: &[[f32; CUTS]; WAYS],
        sum_q2: &[[f32; CUTS]; WAYS],
    ) {
        let score = best.map_or(-f32::MAX, |best| best.score);
        let mut is_any = false;
        for way in 0..WAYS {
            for second in 0..CUTS {
                let (qx, q2) = (sum_qx[way][second], sum_q2[way][second]);
                is_any |= q2 > 0.0 && qx * qx > score * q2;
            }
        }
        if !is_any {
            return;
        }
        for second in first..=last {
            for way in 0..WAYS {
                let (qx, q2) = (sum_qx[way][second], sum_q2[way][second]);
                let score = best.map_or(-f32::MAX, |best| best.score);
                if q2 > 0.0 && qx * qx > score * q2 {
                    let scale = qx / q2;
                    *best = Some(Self { score: scale * qx, scale, first, second, way });
                }
            }
        }
    }
}

impl<const B: usize> Weighed<B> {
    #[inline(always)]
    fn new(values: &[f32; B], importance: Option<&[f32]>, variance: f32) -> Self {
        let mut weights = values.map(|value| value * value);
        if let Some(importance) = importance {
            for (weight, (value, importance)) in weights.iter_mut().zip(values.iter().zip(importance)) {
                *weight = importance * (variance + value * value).sqrt();
            }
        }
        let mut order: [u8; B] = std::array::from_fn(|place| place as u8);
        // An insertion keeps equal values in order.
        for end in 1..B {
            let place = order[end];
            let value = values[usize::from(place)];
            let mut at = end;
            while at > 0 && values[usize::from(order[at - 1])] > value {
                order[at] = order[at - 1];
                at -= 1;
            }
            order[at] = place;
        }
        Self { values: *values, weights, order }
    }

    #[inline(always)]
    fn largest(&self) -> f32 {
        self.values[1..].iter().fold(self.values[0].abs(), |largest, value| larger(largest, value.abs()))
    }

    /// The part that each place is in: 0, 1 or 2.
    #[inline(always)]
    fn parts(&self, cut: &Cut) -> [u8; B] {
        let mut parts = [0; B];
        for (rank, place) in self.order.iter().enumerate() {
            parts[usize::from(*place)] = u8::from(rank >= cut.first) + u8::from(rank >= cut.second);
        }
        parts
    }

    /// The points for the parts under a scale, and the scale that suits these points where they are others.
    #[inline(always)]
    fn points<const G: usize>(
        &self,
        grid: &Grid<8, 2>,
        parts: &[u8; B],
        mut scale: f32,
        offsets: [&[f32; 3]; G],
    ) -> (f32, [u16; G]) {
        let mut points = [0; G];
        let mut is_other = false;
        for point in 0..G {
            let levels = &parts.as_chunks::<8>().0[point];
            let packed = levels.iter().rev().fold(0u16, |packed, level| packed << 2 | u16::from(*level));
            points[point] = grid.find(packed).unwrap_or_else(|around| {
                is_other = true;
                let (values, weights) =
                    (&self.values.as_chunks::<8>().0[point], &self.weights.as_chunks::<8>().0[point]);
                around.nearest(values, weights, scale, |element| offsets[point][(element as usize - 1) / 2])
            });
        }
        if is_other {
            let (sum_qx, sum_q2) = self.sums(grid, &points, offsets, 1.0, (0.0, 0.0));
            if sum_qx > 0.0 && sum_q2 > 0.0 {
                scale = sum_qx / sum_q2;
            }
        }
        (scale, points)
    }

    /// The sums of least squares for points, added to others.
    #[inline(always)]
    fn sums<const G: usize>(
        &self,
        grid: &Grid<8, 2>,
        points: &[u16; G],
        offsets: [&[f32; 3]; G],
        factor: f32,
        (mut sum_qx, mut sum_q2): (f32, f32),
    ) -> (f32, f32) {
        for index in 0..B {
            let number = offsets[index / 8][grid.level(points[index / 8], index % 8) as usize] * factor;
            sum_qx += self.weights[index] * number * self.values[index];
            sum_q2 += self.weights[index] * number * number;
        }
        (sum_qx, sum_q2)
    }
}

/// Twice the mean of the squares.
#[inline(always)]
fn variance(values: &[f32; SUPER]) -> f32 {
    2.0 * squares(values) / SUPER as f32
}

/// The three-bit code of a sub-block's scale.
#[inline(always)]
fn scale_code(scale: f32, inverse: f32) -> u16 {
    nearest(0.5 * (inverse * scale - 1.0)).clamp(0, 7) as u16
}

super_blocks!(Iq1S, 50, iq1_s);

/// The best cut of a sub-block of IQ1_S.
#[inline(always)]
fn cut_s(block: &Weighed<32>) -> Option<Cut> {
    let (mut sum_x, mut sum_w) = ([0.0; CUTS], [0.0; CUTS]);
    for (rank, place) in block.order.iter().enumerate() {
        let place = usize::from(*place);
        sum_x[rank + 1] = sum_x[rank] + block.weights[place] * block.values[place];
        sum_w[rank + 1] = sum_w[rank] + block.weights[place];
    }
    let (all_x, all_w) = (sum_x[32], sum_w[32]);
    let mut best = None;
    for first in 0..=32 {
        let (mut sum_qx, mut sum_q2) = ([[0.0; CUTS]; 2], [[0.0; CUTS]; 2]);
        for (way, [low, middle, high]) in [UP, DOWN].into_iter().enumerate() {
            for second in first..CUTS {
                sum_qx[way][second] =
                    sum_x[first] * low + (sum_x[second] - sum_x[first]) * middle + (all_x - sum_x[second]) * high;
                sum_q2[way][second] = sum_w[first] * low * low
                    + (sum_w[second] - sum_w[first]) * middle * middle
                    + (all_w - sum_w[second]) * high * high;
            }
        }
        Cut::improve(&mut best, first, 32, &sum_qx, &sum_q2);
    }
    best
}

#[inline(always)]
fn iq1_s(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 50]) {
    // Nobody encodes to it without.
    let importance = importance.unwrap_or(&[1.0; SUPER]);
    const LEAST: f32 = 1e-12;
    let grid = GRID.get();
    let variance = variance(values);
    let (mut words, mut scales, mut is_down, mut largest_scale) = ([0u16; 8], [0.0; 8], [false; 8], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Weighed::new(values, Some(&importance[32 * index..]), variance);
        if block.largest() < LEAST {
            continue;
        }
        let Some(mut cut) = cut_s(&block) else { continue };
        let mut parts = block.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.way) = (-cut.scale, 1 - cut.way);
        }
        let offsets = if cut.way == 0 { &UP } else { &DOWN };
        let (scale, points) = block.points(grid, &parts, cut.scale, [offsets; 4]);
        for (point, found) in points.iter().enumerate() {
            out[2 + 4 * index + point] = *found as u8;
            words[index] |= found >> 8 << (3 * point);
        }
        (scales[index], is_down[index]) = (scale, cut.way == 1);
        largest_scale = larger(largest_scale, scale);
    }
    let scale = largest_scale / 15.0;
    if largest_scale != 0.0 {
        out[..2].copy_from_slice(&f16::encode(scale * 1.125).to_le_bytes());
        for index in 0..8 {
            let code = scale_code(scales[index], 1.0 / scale) | u16::from(is_down[index]) << 3;
            words[index] |= code << 12;
        }
    }
    for (out, word) in out[34..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
}

super_blocks!(Iq1M, 56, iq1_m);

/// The best cut of a sub-block of IQ1_M, each half of which has an offset of its own: both up, the second down, the first
/// down, both down.
#[inline(always)]
fn cut_m(block: &Weighed<16>) -> Option<Cut> {
    const HIGH: [f32; 2] = [UP[2], DOWN[2]];
    const LOW_STEP: [f32; 2] = [UP[0] * UP[0] - UP[1] * UP[1], DOWN[0] * DOWN[0] - DOWN[1] * DOWN[1]];
    const HIGH_STEP: [f32; 2] = [UP[1] * UP[1] - UP[2] * UP[2], DOWN[1] * DOWN[1] - DOWN[2] * DOWN[2]];
    let (mut sum_x, mut sum_w) = ([[0.0; CUTS]; 2], [[0.0; CUTS]; 2]);
    for (rank, place) in block.order.iter().enumerate() {
        let place = usize::from(*place);
        let half = usize::from(place >= 8);
        sum_x[half][rank + 1] = sum_x[half][rank] + block.weights[place] * block.values[place];
        sum_w[half][rank + 1] = sum_w[half][rank] + block.weights[place];
        sum_x[1 - half][rank + 1] = sum_x[1 - half][rank];
        sum_w[1 - half][rank + 1] = sum_w[1 - half][rank];
    }
    let mut best = None;
    for first in 0..=16 {
        // By half and offset.
        let (mut of_qx, mut of_q2) = ([[[0.0; CUTS]; 2]; 2], [[[0.0; CUTS]; 2]; 2]);
        for half in 0..2 {
            let (all_x, all_w) = (sum_x[half][16], sum_w[half][16]);
            for offset in 0..2 {
                for second in first..17 {
                    of_qx[half][offset][second] = all_x * HIGH[offset] - (sum_x[half][first] + sum_x[half][second]);
                    of_q2[half][offset][second] = all_w * HIGH[offset] * HIGH[offset]
                        + sum_w[half][first] * LOW_STEP[offset]
                        + sum_w[half][second] * HIGH_STEP[offset];
                }
            }
        }
        let (mut sum_qx, mut sum_q2) = ([[0.0; CUTS]; 4], [[0.0; CUTS]; 4]);
        for way in 0..4 {
            for second in first..17 {
                sum_qx[way][second] = of_qx[0][way / 2][second] + of_qx[1][way % 2][second];
                sum_q2[way][second] = of_q2[0][way / 2][second] + of_q2[1][way % 2][second];
            }
        }
        Cut::improve(&mut best, first, 16, &sum_qx, &sum_q2);
    }
    best
}

/// The offsets of both points of a sub-block of IQ1_M.
#[inline(always)]
fn offsets_m(way: usize) -> [&'static [f32; 3]; 2] {
    [if way < 2 { &UP } else { &DOWN }, if way.is_multiple_of(2) { &UP } else { &DOWN }]
}

#[inline(always)]
fn iq1_m(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 56]) {
    const LEAST: f32 = 1e-7;
    let grid = GRID.get();
    let variance = variance(values);
    let (mut found, mut scales, mut ways, mut largest_scale) = ([[0u16; 2]; 16], [0.0; 16], [0; 16], 0.0);
    let weighed = |index: usize| {
        let values = &values.as_chunks::<16>().0[index];
        Weighed::new(values, importance.map(|importance| &importance[16 * index..]), variance)
    };
    out.fill(0);
    for index in 0..16 {
        let block = weighed(index);
        if block.largest() < LEAST {
            continue;
        }
        let Some(mut cut) = cut_m(&block) else { continue };
        let mut parts = block.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.way) = (-cut.scale, 3 - cut.way);
        }
        (scales[index], found[index]) = block.points(grid, &parts, cut.scale, offsets_m(cut.way));
        ways[index] = cut.way;
        out[2 * index] = found[index][0] as u8;
        out[2 * index + 1] = found[index][1] as u8;
        out[32 + index] = (found[index][0] >> 8 | found[index][1] >> 8 << 4) as u8;
        largest_scale = larger(largest_scale, scales[index]);
    }
    if largest_scale == 0.0 {
        return;
    }
    let mut scale = largest_scale / 15.0;
    let inverse = 1.0 / scale;
    let (mut words, mut sums) = ([0u16; 4], (0.0, 0.0));
    for index in 0..16 {
        let code = scale_code(scales[index], inverse);
        words[index / 4] |= code << (3 * (index % 4));
        out[32 + index] |= [0x00, 0x80, 0x08, 0x88][ways[index]];
        let factor = f32::from(2 * code + 1);
        sums = weighed(index).sums(grid, &found[index], offsets_m(ways[index]), factor, sums);
    }
    if sums.1 > 0.0 {
        scale = sums.0 / sums.1;
    }
    let scale = f16::encode(scale * 1.1125);
    for (quarter, word) in words.iter_mut().enumerate() {
        *word |= (scale >> (4 * quarter) & 15) << 12;
    }
    for (out, word) in out[48..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
}
