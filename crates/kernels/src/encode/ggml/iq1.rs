//! The encoders of IQ1_S (`quantize_row_iq1_s_impl` of ggml) and IQ1_M (`quantize_row_iq1_m_impl`): ternary values plus
//! a shift of ±1/8, as points of a grid.
//!
//! The values of a sub-block are sorted, and every partition into −1, 0 and 1 is scored for either shift
//! ([`partition`](super::partition)). The best one is then moved to points of the grid (`iq1_find_best_neighbour2`).

use super::grid::{Grid, LazyGrid};
use super::lanes::{QK_K, c_max, nearest_int, sum_of_squares};
use super::levels::level;
use super::neighbours::{Target, level_values};
use super::partition::{self, Partition, PartitionTerms, Sums};
use super::{EncodeBlocks, part};
use crate::base::GROUP;
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq1M, Iq1S, tables};

static GRID: LazyGrid<8> = LazyGrid::new(&tables::IQ1, 3, 3, 40.0);

/// The three levels with a shift, and the same repeated for eight elements.
struct ShiftedLevels {
    levels: [f32; 3],
    level_values: [f32; GROUP],
}

impl ShiftedLevels {
    const fn new(levels: [f32; 3]) -> Self {
        Self { levels, level_values: level_values::<8>(&levels) }
    }
}

/// The levels plus and minus the shift (`x_p` and `x_m` of ggml).
static PLUS_DELTA: ShiftedLevels = ShiftedLevels::new([-1.0 + 0.125, 0.125, 1.0 + 0.125]);
static MINUS_DELTA: ShiftedLevels = ShiftedLevels::new([-1.0 - 0.125, -0.125, 1.0 - 0.125]);

/// The weight of each value: `importance · sqrt(variance + value²)`, or its square without importance.
#[inline(always)]
fn weights(values: &[f32; QK_K], importance: Option<&[f32]>) -> [f32; QK_K] {
    let mut weights = [0.0; QK_K];
    for (weight, value) in weights.iter_mut().zip(values) {
        *weight = value * value;
    }
    if let Some(importance) = importance {
        let variance = 2.0 * sum_of_squares(values) / QK_K as f32;
        for (weight, (value, importance)) in weights.iter_mut().zip(values.iter().zip(importance)) {
            *weight = importance * (variance + value * value).sqrt();
        }
    }
    weights
}

/// The values and weights of a sub-block.
struct WeightedBlock<'a, const B: usize> {
    values: &'a [f32; B],
    weights: &'a [f32; B],
}

/// A stable sort of the values of a sub-block.
struct SortOrder<const B: usize> {
    ranks: [i32; B],
    places: [u8; B],
}

impl<const B: usize> SortOrder<B> {
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
            // NaN has the rank of another value.
            places[*rank as usize % B] = place as u8;
        }
        Self { ranks, places }
    }

    /// The code of each value: 0, 1 or 2.
    #[inline(always)]
    fn parts(&self, cut: &Partition) -> [u8; B] {
        let mut parts = [0; B];
        for (part, rank) in parts.iter_mut().zip(self.ranks) {
            *part = u8::from(rank >= cut.first as i32) + u8::from(rank >= cut.second as i32);
        }
        parts
    }
}

impl<const B: usize> WeightedBlock<'_, B> {
    #[inline(always)]
    fn largest(&self) -> f32 {
        self.values[1..].iter().fold(self.values[0].abs(), |largest, value| c_max(largest, value.abs()))
    }

    /// The reciprocals of the sums of weighted magnitudes and of weights; `None` outside the range of approximate
    /// scores.
    #[inline(always)]
    fn normalisers(&self) -> Option<(f32, f32)> {
        let (mut sizes, mut weights) = (0.0, 0.0);
        for (value, weight) in self.values.iter().zip(self.weights) {
            sizes += weight * value.abs();
            weights += weight;
        }
        let is_proper = (1e-13..1e13).contains(&sizes) && (1e-20..1e20).contains(&weights);
        is_proper.then_some((1.0 / sizes, 1.0 / weights))
    }

    /// The grid points nearest to the codes under a scale; if a tuple had to move, the scale is fitted again.
    #[inline(always)]
    fn points<S: Simd, const G: usize>(
        &self,
        simd: S,
        grid: &Grid<8>,
        parts: &[u8; B],
        mut scale: f32,
        offsets: [&ShiftedLevels; G],
    ) -> (f32, [u16; G]) {
        let mut points = [0; G];
        let mut is_other = false;
        for point in 0..G {
            let levels = &parts.as_chunks::<8>().0[point];
            let packed = levels.iter().rev().fold(0u16, |packed, level| packed << 2 | u16::from(*level));
            points[point] = packed;
            if let Some(neighbours) = grid.neighbours(packed) {
                is_other = true;
                let (values, weights) =
                    (&self.values.as_chunks::<8>().0[point], &self.weights.as_chunks::<8>().0[point]);
                let terms = Target::new(values, weights).terms(&offsets[point].level_values, scale);
                points[point] = neighbours.nearest(simd, &terms);
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

    /// Adds the least-squares sums `sumqx` and `sumq2` of these points.
    #[inline(always)]
    fn sums<const G: usize>(
        &self,
        points: &[u16; G],
        offsets: [&ShiftedLevels; G],
        factor: f32,
        (mut sum_qx, mut sum_q2): (f32, f32),
    ) -> (f32, f32) {
        for index in 0..B {
            let level = usize::from(level::<8>(points[index / 8], index % 8));
            let number = offsets[index / 8].level_values[level] * factor;
            sum_qx += self.weights[index] * number * self.values[index];
            sum_q2 += self.weights[index] * number * number;
        }
        (sum_qx, sum_q2)
    }
}

/// The three-bit code of a sub-block's scale.
#[inline(always)]
fn scale_code(scale: f32, inverse: f32) -> u16 {
    nearest_int(0.5 * (inverse * scale - 1.0)).clamp(0, 7) as u16
}

super_blocks!(Iq1S, 50, iq1_s);

/// The best partition of a sub-block of IQ1_S.
#[inline(always)]
fn partition_s<S: Simd>(simd: S, block: &WeightedBlock<32>, order: &SortOrder<32>) -> Option<Partition> {
    let shifts = [PLUS_DELTA.levels, MINUS_DELTA.levels];
    let (mut sum_x, mut sum_w) = ([0.0; 33], [0.0; 33]);
    for (rank, place) in order.places.iter().enumerate() {
        let place = usize::from(*place) % 32;
        sum_x[rank + 1] = sum_x[rank] + block.weights[place] * block.values[place];
        sum_w[rank + 1] = sum_w[rank] + block.weights[place];
    }
    let (all_x, all_w) = (sum_x[32], sum_w[32]);
    let parts = block.normalisers().map(|(unit_x, unit_w)| {
        let without_last = |values: &[f32; 33], unit: f32| -> [f32; 32] { std::array::from_fn(|i| values[i] * unit) };
        let (qx_terms, weights) = (without_last(&sum_x, unit_x), without_last(&sum_w, unit_w));
        let (last_x, last_w) = (all_x * unit_x, all_w * unit_w);
        let first = |shift: usize| shifts[shift][0] * shifts[shift][0] - shifts[shift][1] * shifts[shift][1];
        let second = |shift: usize| shifts[shift][1] * shifts[shift][1] - shifts[shift][2] * shifts[shift][2];
        let high = |shift: usize| last_w * shifts[shift][2] * shifts[shift][2];
        let mut parts = PartitionTerms::<32, 2> {
            all: shifts.map(|[.., high]| last_x * high),
            qx_terms: (qx_terms, last_x),
            first: ([[0.0; 32]; 2], [0, 1].map(|shift| last_w * first(shift))),
            second: ([[0.0; 32]; 2], [0, 1].map(|shift| last_w * second(shift) + high(shift))),
        };
        for shift in 0..2 {
            for cut in 0..32 {
                parts.first.0[shift][cut] = weights[cut] * first(shift);
                parts.second.0[shift][cut] = weights[cut] * second(shift) + high(shift);
            }
        }
        parts
    });
    partition::best(simd, parts.as_ref(), |first, second, shift| {
        let [low, middle, high] = shifts[shift];
        Sums {
            qx: sum_x[first] * low + (sum_x[second] - sum_x[first]) * middle + (all_x - sum_x[second]) * high,
            q2: sum_w[first] * low * low
                + (sum_w[second] - sum_w[first]) * middle * middle
                + (all_w - sum_w[second]) * high * high,
        }
    })
}

#[inline(always)]
fn iq1_s<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 50]) {
    // ggml requires an importance matrix for this type.
    let importance = importance.unwrap_or(&[1.0; QK_K]);
    const EPS: f32 = 1e-12;
    let grid = GRID.get();
    let weights = weights(values, Some(importance));
    let (mut words, mut scales, mut is_minus, mut largest_scale) = ([0u16; 8], [0.0; 8], [false; 8], 0.0);
    out.fill(0);
    for (index, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let block = WeightedBlock { values, weights: &weights.as_chunks::<32>().0[index] };
        if block.largest() < EPS {
            continue;
        }
        let order = SortOrder::new(values);
        let Some(mut cut) = partition_s(simd, &block, &order) else { continue };
        let mut parts = order.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.shift) = (-cut.scale, 1 - cut.shift);
        }
        let offsets = if cut.shift == 0 { &PLUS_DELTA } else { &MINUS_DELTA };
        let (scale, points) = block.points(simd, grid, &parts, cut.scale, [offsets; 4]);
        for (point, found) in points.iter().enumerate() {
            let number = grid.index(*found);
            out[2 + 4 * index + point] = number as u8;
            words[index] |= number >> 8 << (3 * point);
        }
        (scales[index], is_minus[index]) = (scale, cut.shift == 1);
        largest_scale = c_max(largest_scale, scale);
    }
    let scale = largest_scale / 15.0;
    if largest_scale != 0.0 {
        out[..2].copy_from_slice(&f16::encode(scale * 1.125).to_le_bytes());
        for index in 0..8 {
            let code = scale_code(scales[index], 1.0 / scale) | u16::from(is_minus[index]) << 3;
            words[index] |= code << 12;
        }
    }
    for (out, word) in out[34..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
}

super_blocks!(Iq1M, 56, iq1_m);

/// The best partition of a sub-block of IQ1_M, each half of which has its own shift. In order: `++`, `+−`, `−+`, `−−`.
#[inline(always)]
fn partition_m<S: Simd>(simd: S, block: &WeightedBlock<16>, order: &SortOrder<16>) -> Option<Partition> {
    let offsets = [PLUS_DELTA.levels, MINUS_DELTA.levels];
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
    let parts = block.normalisers().map(|(unit_x, unit_w)| {
        let mut parts = PartitionTerms::<16, 4> {
            all: [0.0; 4],
            qx_terms: ([0.0; 16], (sum_x[0][16] + sum_x[1][16]) * unit_x),
            first: ([[0.0; 16]; 4], [0.0; 4]),
            second: ([[0.0; 16]; 4], [0.0; 4]),
        };
        for cut in 0..16 {
            parts.qx_terms.0[cut] = (sum_x[0][cut] + sum_x[1][cut]) * unit_x;
        }
        for shift in 0..4 {
            let (front, back) = (shift / 2, shift % 2);
            parts.all[shift] = (sum_x[0][16] * high[front] + sum_x[1][16] * high[back]) * unit_x;
            let ends = [sum_w[0][16] * unit_w, sum_w[1][16] * unit_w];
            let highest = ends[0] * high[front] * high[front] + ends[1] * high[back] * high[back];
            parts.first.1[shift] = ends[0] * low_step[front] + ends[1] * low_step[back];
            parts.second.1[shift] = ends[0] * high_step[front] + ends[1] * high_step[back] + highest;
            for cut in 0..16 {
                let weights = [sum_w[0][cut] * unit_w, sum_w[1][cut] * unit_w];
                parts.first.0[shift][cut] = weights[0] * low_step[front] + weights[1] * low_step[back];
                parts.second.0[shift][cut] = weights[0] * high_step[front] + weights[1] * high_step[back] + highest;
            }
        }
        parts
    });
    partition::best::<S, 16, 4>(simd, parts.as_ref(), |first, second, shift| {
        let of_half = |half: usize, offset: usize| Sums {
            qx: sum_x[half][16] * high[offset] - (sum_x[half][first] + sum_x[half][second]),
            q2: sum_w[half][16] * high[offset] * high[offset]
                + sum_w[half][first] * low_step[offset]
                + sum_w[half][second] * high_step[offset],
        };
        let (front, back) = (of_half(0, shift / 2), of_half(1, shift % 2));
        Sums { qx: front.qx + back.qx, q2: front.q2 + back.q2 }
    })
}

/// The shifted levels of both points of a sub-block of IQ1_M.
#[inline(always)]
fn shifts_m(shift: usize) -> [&'static ShiftedLevels; 2] {
    [
        if shift < 2 { &PLUS_DELTA } else { &MINUS_DELTA },
        if shift.is_multiple_of(2) { &PLUS_DELTA } else { &MINUS_DELTA },
    ]
}

#[inline(always)]
fn iq1_m<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 56]) {
    const EPS: f32 = 1e-7;
    let grid = GRID.get();
    let weights = weights(values, importance);
    let (mut found, mut scales, mut shifts, mut largest_scale) = ([[grid.first(); 2]; 16], [0.0; 16], [0; 16], 0.0);
    let block_at = |index: usize| WeightedBlock {
        values: &values.as_chunks::<16>().0[index],
        weights: &weights.as_chunks::<16>().0[index],
    };
    out.fill(0);
    for index in 0..16 {
        let block = block_at(index);
        if block.largest() < EPS {
            continue;
        }
        let order = SortOrder::new(block.values);
        let Some(mut cut) = partition_m(simd, &block, &order) else { continue };
        let mut parts = order.parts(&cut);
        if cut.scale < 0.0 {
            parts = parts.map(|part| 2 - part);
            (cut.scale, cut.shift) = (-cut.scale, 3 - cut.shift);
        }
        (scales[index], found[index]) = block.points(simd, grid, &parts, cut.scale, shifts_m(cut.shift));
        shifts[index] = cut.shift;
        let [first, second] = found[index].map(|point| grid.index(point));
        out[2 * index] = first as u8;
        out[2 * index + 1] = second as u8;
        out[32 + index] = (first >> 8 | second >> 8 << 4) as u8;
        largest_scale = c_max(largest_scale, scales[index]);
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
        out[32 + index] |= [0x00, 0x80, 0x08, 0x88][shifts[index]];
        let factor = f32::from(2 * code + 1);
        sums = block_at(index).sums(&found[index], shifts_m(shifts[index]), factor, sums);
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
