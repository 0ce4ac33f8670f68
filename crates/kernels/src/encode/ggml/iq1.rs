//! Three values with an offset, as points of a grid, and scales of scales: IQ1_S (`quantize_row_iq1_s_impl` of ggml) and IQ1_M
//! (`quantize_row_iq1_m_impl`).
//!
//! The values of a sub-block are sorted, and every way to cut them into a low, a middle and a high part is tried, with the
//! offset up and down. The result of the best one is moved to points of the grid (`iq1_find_best_neighbour2`).

use super::cuts::{self, Cut, Parts, Sums};
use super::grid::{Grid, Lazy};
use super::lanes::{SUPER, larger, nearest, squares};
use super::levels::level;
use super::near::{Target, numbers};
use super::{EncodeBlocks, part};
use crate::base::GROUP;
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq1M, Iq1S, tables};

static GRID: Lazy<8> = Lazy::new(&tables::IQ1, 3, 3, 40.0);

/// The three values with an offset, and the same for each of eight elements.
struct Offset {
    levels: [f32; 3],
    numbers: [f32; GROUP],
}

impl Offset {
    const fn new(levels: [f32; 3]) -> Self {
        Self { levels, numbers: numbers::<8>(&levels) }
    }
}

/// The three values with the offset up and down.
static UP: Offset = Offset::new([-1.0 + 0.125, 0.125, 1.0 + 0.125]);
static DOWN: Offset = Offset::new([-1.0 - 0.125, -0.125, 1.0 - 0.125]);

/// The weight of each value.
#[inline(always)]
fn weights(values: &[f32; SUPER], importance: Option<&[f32]>) -> [f32; SUPER] {
    let mut weights = [0.0; SUPER];
    for (weight, value) in weights.iter_mut().zip(values) {
        *weight = value * value;
    }
    if let Some(importance) = importance {
        let variance = 2.0 * squares(values) / SUPER as f32;
        for (weight, (value, importance)) in weights.iter_mut().zip(values.iter().zip(importance)) {
            *weight = importance * (variance + value * value).sqrt();
        }
    }
    weights
}

/// The values of a sub-block and what they weigh.
struct Weighed<'a, const B: usize> {
    values: &'a [f32; B],
    weights: &'a [f32; B],
}

/// The places of a sub-block in the order of their values; those of equal ones in their own order.
struct Order<const B: usize> {
    ranks: [i32; B],
    places: [u8; B],
}

impl<const B: usize> Order<B> {
    #[inline(always)]
    fn new(values: &[f32; B]) -> Self {
        let mut ranks = [0; B];
        for (place, &other) in values.iter().enumerate() {
            for i in 0..B {
                let is_before = if place < i { other <= values[i] } else { other < values[i] };
                ranks[i] += i32::from(is_before);
            }
        }
        let mut places = [0; B];
        for (place, rank) in ranks.iter().enumerate() {
            // NaN has the rank of another.
            places[*rank as usize % B] = place as u8;
        }
        Self { ranks, places }
    }

    /// The part that each place is in: 0, 1 or 2.
    #[inline(always)]
    fn parts(&self, cut: &Cut) -> [u8; B] {
        let mut parts = [0; B];
        for (part, rank) in parts.iter_mut().zip(self.ranks) {
            *part = u8::from(rank >= cut.first as i32) + u8::from(rank >= cut.second as i32);
        }
        parts
    }
}

impl<const B: usize> Weighed<'_, B> {
    #[inline(always)]
    fn largest(&self) -> f32 {
        self.values[1..].iter().fold(self.values[0].abs(), |largest, value| larger(largest, value.abs()))
    }

    /// One divided by the sum of magnitudes times weights, if it is within the range of the rough scores.
    #[inline(always)]
    fn units(&self) -> Option<(f32, f32)> {
        let (mut sizes, mut weights) = (0.0, 0.0);
        for (value, weight) in self.values.iter().zip(self.weights) {
            sizes += weight * value.abs();
            weights += weight;
        }
        let is_proper = (1e-13..1e13).contains(&sizes) && (1e-20..1e20).contains(&weights);
        is_proper.then_some((1.0 / sizes, 1.0 / weights))
    }

    /// The points for the parts under a scale, and the scale that suits these points where they are others.
    #[inline(always)]
    fn points<S: Simd, const G: usize>(
        &self,
        simd: S,
        grid: &Grid<8>,
        parts: &[u8; B],
        mut scale: f32,
        offsets: [&Offset; G],
    ) -> (f32, [u16; G]) {
        let mut points = [0; G];
        let mut is_other = false;
        for point in 0..G {
            let levels = &parts.as_chunks::<8>().0[point];
            let packed = levels.iter().rev().fold(0u16, |packed, level| packed << 2 | u16::from(*level));
            points[point] = packed;
            if let Some(around) = grid.around(packed) {
                is_other = true;
                let (values, weights) =
                    (&self.values.as_chunks::<8>().0[point], &self.weights.as_chunks::<8>().0[point]);
                let terms = Target::new(values, weights).terms(&offsets[point].numbers, scale);
                points[point] = around.nearest(simd, &terms);
            }
        }
        if is_other {
            let (sum_qx, sum_q2) = self.sums(&points, offsets, 1.0, (0.0, 0.0));
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
        points: &[u16; G],
        offsets: [&Offset; G],
        factor: f32,
        (mut sum_qx, mut sum_q2): (f32, f32),
    ) -> (f32, f32) {
        for index in 0..B {
            let level = usize::from(level::<8>(points[index / 8], index % 8));
            let number = offsets[index / 8].numbers[level] * factor;
            sum_qx += self.weights[index] * number * self.values[index];
            sum_q2 += self.weights[index] * number * number;
        }
        (sum_qx, sum_q2)
    }
}

/// The three-bit code of a sub-block's scale.
#[inline(always)]
fn scale_code(scale: f32, inverse: f32) -> u16 {
    nearest(0.5 * (inverse * scale - 1.0)).clamp(0, 7) as u16
}

super_blocks!(Iq1S, 50, iq1_s);

/// The best cut of a sub-block of IQ1_S.
#[inline(always)]
fn cut_s<S: Simd>(simd: S, block: &Weighed<32>, order: &Order<32>) -> Option<Cut> {
    let ways = [UP.levels, DOWN.levels];
    let (mut sum_x, mut sum_w) = ([0.0; 33], [0.0; 33]);
    for (rank, place) in order.places.iter().enumerate() {
        let place = usize::from(*place) % 32;
        sum_x[rank + 1] = sum_x[rank] + block.weights[place] * block.values[place];
        sum_w[rank + 1] = sum_w[rank] + block.weights[place];
    }
    let (all_x, all_w) = (sum_x[32], sum_w[32]);
    let parts = block.units().map(|(unit_x, unit_w)| {
        let without_last = |values: &[f32; 33], unit: f32| -> [f32; 32] { std::array::from_fn(|i| values[i] * unit) };
        let (taken, weights) = (without_last(&sum_x, unit_x), without_last(&sum_w, unit_w));
        let (last_x, last_w) = (all_x * unit_x, all_w * unit_w);
        let first = |way: usize| ways[way][0] * ways[way][0] - ways[way][1] * ways[way][1];
        let second = |way: usize| ways[way][1] * ways[way][1] - ways[way][2] * ways[way][2];
        let high = |way: usize| last_w * ways[way][2] * ways[way][2];
        let mut parts = Parts::<32, 2> {
            all: ways.map(|[.., high]| last_x * high),
            taken: (taken, last_x),
            first: ([[0.0; 32]; 2], [0, 1].map(|way| last_w * first(way))),
            second: ([[0.0; 32]; 2], [0, 1].map(|way| last_w * second(way) + high(way))),
        };
        for way in 0..2 {
            for cut in 0..32 {
                parts.first.0[way][cut] = weights[cut] * first(way);
                parts.second.0[way][cut] = weights[cut] * second(way) + high(way);
            }
        }
        parts
    });
    cuts::best(simd, parts.as_ref(), |first, second, way| {
        let [low, middle, high] = ways[way];
        Sums {
            qx: sum_x[first] * low + (sum_x[second] - sum_x[first]) * middle + (all_x - sum_x[second]) * high,
            q2: sum_w[first] * low * low
                + (sum_w[second] - sum_w[first]) * middle * middle
                + (all_w - sum_w[second]) * high * high,
        }
    })
}

#[inline(always)]
fn iq1_s<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 50]) {
    // The type cannot be encoded without an importance.
    let importance = importance.unwrap_or(&[1.0; SUPER]);
    const LEAST: f32 = 1e-12;
    let grid = GRID.get();
    let weights = weights(values, Some(importance));
    let (mut words, mut scales, mut is_down, mut largest_scale) = ([0u16; 8], [0.0; 8], [false; 8], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = Weighed { values, weights: &weights.as_chunks::<32>().0[index] };
        if block.largest() < LEAST {
            continue;
        }
        let order = Order::new(values);
        let Some(mut cut) = cut_s(simd, &block, &order) else { continue };
        let mut parts = order.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.way) = (-cut.scale, 1 - cut.way);
        }
        let offsets = if cut.way == 0 { &UP } else { &DOWN };
        let (scale, points) = block.points(simd, grid, &parts, cut.scale, [offsets; 4]);
        for (point, found) in points.iter().enumerate() {
            let number = grid.number(*found);
            out[2 + 4 * index + point] = number as u8;
            words[index] |= number >> 8 << (3 * point);
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
fn cut_m<S: Simd>(simd: S, block: &Weighed<16>, order: &Order<16>) -> Option<Cut> {
    let offsets = [UP.levels, DOWN.levels];
    let high = offsets.map(|[.., high]| high);
    let low_step = offsets.map(|[low, middle, _]| low * low - middle * middle);
    let high_step = offsets.map(|[_, middle, high]| middle * middle - high * high);
    let (mut sum_x, mut sum_w) = ([[0.0; 17]; 2], [[0.0; 17]; 2]);
    for (rank, place) in order.places.iter().enumerate() {
        let place = usize::from(*place) % 16;
        let half = usize::from(place >= 8);
        sum_x[half][rank + 1] = sum_x[half][rank] + block.weights[place] * block.values[place];
        sum_w[half][rank + 1] = sum_w[half][rank] + block.weights[place];
        sum_x[1 - half][rank + 1] = sum_x[1 - half][rank];
        sum_w[1 - half][rank + 1] = sum_w[1 - half][rank];
    }
    let parts = block.units().map(|(unit_x, unit_w)| {
        let mut parts = Parts::<16, 4> {
            all: [0.0; 4],
            taken: ([0.0; 16], (sum_x[0][16] + sum_x[1][16]) * unit_x),
            first: ([[0.0; 16]; 4], [0.0; 4]),
            second: ([[0.0; 16]; 4], [0.0; 4]),
        };
        for cut in 0..16 {
            parts.taken.0[cut] = (sum_x[0][cut] + sum_x[1][cut]) * unit_x;
        }
        for way in 0..4 {
            let (front, back) = (way / 2, way % 2);
            parts.all[way] = (sum_x[0][16] * high[front] + sum_x[1][16] * high[back]) * unit_x;
            let ends = [sum_w[0][16] * unit_w, sum_w[1][16] * unit_w];
            let highest = ends[0] * high[front] * high[front] + ends[1] * high[back] * high[back];
            parts.first.1[way] = ends[0] * low_step[front] + ends[1] * low_step[back];
            parts.second.1[way] = ends[0] * high_step[front] + ends[1] * high_step[back] + highest;
            for cut in 0..16 {
                let weights = [sum_w[0][cut] * unit_w, sum_w[1][cut] * unit_w];
                parts.first.0[way][cut] = weights[0] * low_step[front] + weights[1] * low_step[back];
                parts.second.0[way][cut] = weights[0] * high_step[front] + weights[1] * high_step[back] + highest;
            }
        }
        parts
    });
    cuts::best::<S, 16, 4>(simd, parts.as_ref(), |first, second, way| {
        let of_half = |half: usize, offset: usize| Sums {
            qx: sum_x[half][16] * high[offset] - (sum_x[half][first] + sum_x[half][second]),
            q2: sum_w[half][16] * high[offset] * high[offset]
                + sum_w[half][first] * low_step[offset]
                + sum_w[half][second] * high_step[offset],
        };
        let (front, back) = (of_half(0, way / 2), of_half(1, way % 2));
        Sums { qx: front.qx + back.qx, q2: front.q2 + back.q2 }
    })
}

/// The offsets of both points of a sub-block of IQ1_M.
#[inline(always)]
fn offsets_m(way: usize) -> [&'static Offset; 2] {
    [if way < 2 { &UP } else { &DOWN }, if way.is_multiple_of(2) { &UP } else { &DOWN }]
}

#[inline(always)]
fn iq1_m<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 56]) {
    const LEAST: f32 = 1e-7;
    let grid = GRID.get();
    let weights = weights(values, importance);
    let (mut found, mut scales, mut ways, mut largest_scale) = ([[grid.first(); 2]; 16], [0.0; 16], [0; 16], 0.0);
    let weighed = |index: usize| Weighed {
        values: &values.as_chunks::<16>().0[index],
        weights: &weights.as_chunks::<16>().0[index],
    };
    out.fill(0);
    for index in 0..16 {
        let block = weighed(index);
        if block.largest() < LEAST {
            continue;
        }
        let order = Order::new(block.values);
        let Some(mut cut) = cut_m(simd, &block, &order) else { continue };
        let mut parts = order.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.way) = (-cut.scale, 3 - cut.way);
        }
        (scales[index], found[index]) = block.points(simd, grid, &parts, cut.scale, offsets_m(cut.way));
        ways[index] = cut.way;
        let [first, second] = found[index].map(|point| grid.number(point));
        out[2 * index] = first as u8;
        out[2 * index + 1] = second as u8;
        out[32 + index] = (first >> 8 | second >> 8 << 4) as u8;
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
        sums = weighed(index).sums(&found[index], offsets_m(ways[index]), factor, sums);
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
