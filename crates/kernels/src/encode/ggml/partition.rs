//! The partition search of `quantize_row_iq1_s_impl` and `quantize_row_iq1_m_impl` of ggml: two boundaries that divide
//! sorted values into those of code −1, 0 and 1, for every shift of the levels.
//!
//! ggml scores every candidate in turn and keeps each that beats the best so far. The score of a candidate is `sumqx² /
//! sumq2`, and each sum is a term of the first boundary plus a term of the second. Approximate scores of all candidates
//! are therefore computed in vectors; only candidates close to the best are scored again, in the order and with the
//! arithmetic of ggml.
//!
//! Dropping the others does not change the result. Approximate scores differ from those of ggml by less than 0.001 of
//! the best, dropped candidates are at least 0.003 below it, and comparing two scores has a rounding error below
//! 1/3,000,000, which a thousand comparisons cannot add up to 0.001. So whatever the running best was, some kept
//! candidate clearly beats it, and no dropped candidate beats that one.

use crate::base::GROUP;
use crate::base::simd::Simd;

/// The best partition so far.
#[derive(Clone, Copy)]
pub(super) struct Partition {
    score: f32,
    pub(super) scale: f32,
    pub(super) first: usize,
    pub(super) second: usize,
    /// Index of the shift of the levels (`best_shift`).
    pub(super) shift: usize,
}

/// `sumqx` and `sumq2` of a candidate, as ggml computes them.
pub(super) struct Sums {
    pub(super) qx: f32,
    pub(super) q2: f32,
}

impl Partition {
    /// Replaces `best` by a candidate with a higher score.
    #[inline(always)]
    fn improve(best: &mut Option<Self>, [first, second, shift]: [usize; 3], Sums { qx, q2 }: Sums) {
        let score = best.map_or(-f32::MAX, |best| best.score);
        if q2 > 0.0 && qx * qx > score * q2 {
            let scale = qx / q2;
            *best = Some(Self { score: scale * qx, scale, first, second, shift });
        }
    }
}

/// The terms of a boundary in the sums of each shift, normalised to 1. `N` values have `N + 1` boundaries, of which the
/// last is stored separately.
pub(super) struct PartitionTerms<const N: usize, const SHIFTS: usize> {
    /// `qx` of all values without a boundary.
    pub(super) all: [f32; SHIFTS],
    /// The term of either boundary in `qx`.
    pub(super) qx_terms: ([f32; N], f32),
    /// The term of the first boundary in `q2`.
    pub(super) first: ([[f32; N]; SHIFTS], [f32; SHIFTS]),
    /// The term of the second boundary in `q2`.
    pub(super) second: ([[f32; N]; SHIFTS], [f32; SHIFTS]),
}

/// Candidates that are scored exactly, at most; with more, all are.
const MAX_CANDIDATES: usize = 96;

/// Vector groups per first boundary.
const GROUPS: usize = 2;

/// [`PartitionTerms`] laid out for vectors: for one first boundary, all second boundaries but the last, shift by shift.
struct TermRows<'a, const N: usize, const SHIFTS: usize> {
    terms: &'a PartitionTerms<N, SHIFTS>,
    all: [[f32; GROUP]; GROUPS],
    qx_terms: [f32; GROUP],
    first: [[f32; GROUP]; GROUPS],
    second: [[f32; GROUP]; GROUPS],
    places: [f32; GROUP],
}

impl<'a, const N: usize, const SHIFTS: usize> TermRows<'a, N, SHIFTS> {
    /// The shift and the second boundary of a lane.
    #[inline(always)]
    fn at(group: usize, place: usize) -> (usize, usize) {
        (group * (GROUP / N) + place / N, place % N)
    }

    #[inline(always)]
    fn new(terms: &'a PartitionTerms<N, SHIFTS>) -> Self {
        let empty = [[0.0; GROUP]; GROUPS];
        let mut rows =
            Self { terms, all: empty, qx_terms: [0.0; GROUP], first: empty, second: empty, places: [0.0; GROUP] };
        for group in 0..GROUPS {
            for place in 0..GROUP {
                let (shift, boundary) = Self::at(group, place);
                rows.all[group][place] = terms.all[shift];
                rows.first[group][place] = terms.first.0[shift][boundary];
                rows.second[group][place] = terms.second.0[shift][boundary];
            }
        }
        for place in 0..GROUP {
            (rows.qx_terms[place], rows.places[place]) = (terms.qx_terms.0[place % N], (place % N) as f32);
        }
        rows
    }

    /// `qx²` and `q2` of all second boundaries with this first one; `qx²` is 0 for second boundaries before it.
    #[inline(always)]
    fn with_first(&self, boundary: usize, group: usize) -> ([f32; GROUP], [f32; GROUP]) {
        let (mut qx2, mut q2) = ([0.0; GROUP], [0.0; GROUP]);
        let mut first = [0.0; GROUP];
        for (half, first) in first.chunks_exact_mut(N).enumerate() {
            first.fill(self.terms.first.0[group * (GROUP / N) + half][boundary]);
        }
        let (qx_terms, boundary) = (self.terms.qx_terms.0[boundary], boundary as f32);
        for i in 0..GROUP {
            let qx = self.all[group][i] - (qx_terms + self.qx_terms[i]);
            qx2[i] = if self.places[i] >= boundary { qx * qx } else { 0.0 };
            q2[i] = first[i] + self.second[group][i];
        }
        (qx2, q2)
    }

    /// `qx²` and `q2` of all first boundaries but the last, with the second at the end.
    #[inline(always)]
    fn with_second_at_end(&self, group: usize) -> ([f32; GROUP], [f32; GROUP]) {
        let (mut qx2, mut q2) = ([0.0; GROUP], [0.0; GROUP]);
        for i in 0..GROUP {
            let qx = self.all[group][i] - (self.qx_terms[i] + self.terms.qx_terms.1);
            qx2[i] = qx * qx;
            q2[i] = self.first[group][i] + self.terms.second.1[Self::at(group, i).0];
        }
        (qx2, q2)
    }

    /// `qx²` and `q2` with both boundaries at the end.
    #[inline(always)]
    fn both_at_end(&self, shift: usize) -> (f32, f32) {
        let qx = self.terms.all[shift] - (self.terms.qx_terms.1 + self.terms.qx_terms.1);
        (qx * qx, self.terms.first.1[shift] + self.terms.second.1[shift])
    }

    /// The highest approximate score.
    #[inline(always)]
    fn best(&self) -> f32 {
        let (mut best_qx2, mut best_q2) = ([0.0; GROUP], [1.0; GROUP]);
        let mut take = |(qx2, q2): ([f32; GROUP], [f32; GROUP])| {
            for i in 0..GROUP {
                let is_better = qx2[i] * best_q2[i] > best_qx2[i] * q2[i];
                best_qx2[i] = if is_better { qx2[i] } else { best_qx2[i] };
                best_q2[i] = if is_better { q2[i] } else { best_q2[i] };
            }
        };
        for group in 0..GROUPS {
            for boundary in 0..N {
                take(self.with_first(boundary, group));
            }
            take(self.with_second_at_end(group));
        }
        let best = (0..GROUP).fold(0.0, |best: f32, i| best.max(best_qx2[i] / best_q2[i]));
        (0..SHIFTS).map(|shift| self.both_at_end(shift)).fold(best, |best, (qx2, q2)| best.max(qx2 / q2))
    }

    /// The candidates whose score is not below `limit`, in the order of ggml: first boundary, second boundary and shift
    /// in one word. `None` if there are too many.
    #[inline(always)]
    fn candidates<S: Simd>(&self, simd: S, limit: f32, candidates: &mut [u32; MAX_CANDIDATES]) -> Option<usize> {
        let mut count = 0;
        let mut put = |first: usize, second: usize, shift: usize| -> Option<()> {
            *candidates.get_mut(count)? = (first << 16 | second << 8 | shift) as u32;
            count += 1;
            Some(())
        };
        let above = |(qx2, mut q2): ([f32; GROUP], [f32; GROUP])| {
            q2.iter_mut().for_each(|q2| *q2 *= limit);
            simd.not_below(&qx2, &q2)
        };
        for group in 0..GROUPS {
            for boundary in 0..=N {
                let mut bits =
                    above(if boundary < N { self.with_first(boundary, group) } else { self.with_second_at_end(group) });
                while bits != 0 {
                    let (shift, at) = Self::at(group, bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                    let (first, second) = if boundary < N { (boundary, at) } else { (at, N) };
                    put(first, second, shift)?;
                }
            }
        }
        for shift in 0..SHIFTS {
            let (qx2, q2) = self.both_at_end(shift);
            if qx2 >= limit * q2 {
                put(N, N, shift)?;
            }
        }
        candidates[..count].sort_unstable();
        Some(count)
    }
}

/// The best partition of `N` values: `terms` give the approximate sums, `sums` the exact ones.
#[inline(always)]
pub(super) fn best<S: Simd, const N: usize, const SHIFTS: usize>(
    simd: S,
    terms: Option<&PartitionTerms<N, SHIFTS>>,
    sums: impl Fn(usize, usize, usize) -> Sums,
) -> Option<Partition> {
    /// Candidates are kept if their approximate score is above this fraction of the best.
    const LIMIT: f32 = 0.996;
    /// Below this score, the approximation is too coarse.
    const LEAST: f32 = 1e-3;
    let mut best_partition = None;
    if let Some(terms) = terms {
        let rows = TermRows::new(terms);
        let best = rows.best();
        let mut candidates = [0; MAX_CANDIDATES];
        if best > LEAST
            && best < 1e3
            && let Some(count) = rows.candidates(simd, LIMIT * best, &mut candidates)
        {
            for place in &candidates[..count] {
                let [shift, second, first, _] = place.to_le_bytes().map(usize::from);
                Partition::improve(&mut best_partition, [first, second, shift], sums(first, second, shift));
            }
            return best_partition;
        }
    }
    for first in 0..=N {
        for second in first..=N {
            for shift in 0..SHIFTS {
                Partition::improve(&mut best_partition, [first, second, shift], sums(first, second, shift));
            }
        }
    }
    best_partition
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::simd::Portable;

    /// The best partition of `values` under two shifts, found through the approximate scores or by scoring all
    /// candidates.
    fn partition(values: &[f32; 32], weights: &[f32; 32], is_approximate: bool) -> Option<[u32; 5]> {
        const SHIFTS: [[f32; 3]; 2] = [[-0.875, 0.125, 1.125], [-1.125, -0.125, 0.875]];
        let (mut sum_x, mut sum_w) = ([0.0f32; 33], [0.0f32; 33]);
        for i in 0..32 {
            sum_x[i + 1] = sum_x[i] + weights[i] * values[i];
            sum_w[i + 1] = sum_w[i] + weights[i];
        }
        let sums = |first: usize, second: usize, shift: usize| {
            let [low, middle, high] = SHIFTS[shift];
            let of = |sums: &[f32; 33], [low, middle, high]: [f32; 3]| {
                sums[first] * low + (sums[second] - sums[first]) * middle + (sums[32] - sums[second]) * high
            };
            Sums { qx: of(&sum_x, SHIFTS[shift]), q2: of(&sum_w, [low * low, middle * middle, high * high]) }
        };
        let size: f32 = values.iter().zip(weights).map(|(value, weight)| (value * weight).abs()).sum();
        let (unit_x, unit_w) = (1.0 / size, 1.0 / sum_w[32]);
        let first = |shift: usize| SHIFTS[shift][0] * SHIFTS[shift][0] - SHIFTS[shift][1] * SHIFTS[shift][1];
        let second = |shift: usize| SHIFTS[shift][1] * SHIFTS[shift][1] - SHIFTS[shift][2] * SHIFTS[shift][2];
        let with_first = |shift: usize, boundary: usize| sum_w[boundary] * unit_w * first(shift);
        let of_second = |shift: usize, boundary: usize| {
            sum_w[boundary] * unit_w * second(shift) + sum_w[32] * unit_w * SHIFTS[shift][2] * SHIFTS[shift][2]
        };
        let terms = PartitionTerms::<32, 2> {
            all: [0, 1].map(|shift| sum_x[32] * unit_x * SHIFTS[shift][2]),
            qx_terms: (std::array::from_fn(|boundary| sum_x[boundary] * unit_x), sum_x[32] * unit_x),
            first: (
                [0, 1].map(|shift| std::array::from_fn(|boundary| with_first(shift, boundary))),
                [0, 1].map(|shift| with_first(shift, 32)),
            ),
            second: (
                [0, 1].map(|shift| std::array::from_fn(|boundary| of_second(shift, boundary))),
                [0, 1].map(|shift| of_second(shift, 32)),
            ),
        };
        let found = best(Portable, is_approximate.then_some(&terms), sums)?;
        Some([
            found.score.to_bits(),
            found.scale.to_bits(),
            found.first as u32,
            found.second as u32,
            found.shift as u32,
        ])
    }

    #[test]
    fn the_best_partition_is_among_the_candidates_scored_exactly() {
        let mut state = 5u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0
        };
        for round in 0..3000 {
            let mut values = [0.0; 32];
            // Few different values make many candidates equal.
            let steps = [3.0, 7.0, 1e6][round % 3];
            values.iter_mut().for_each(|value| *value = (random() * steps).floor() / steps - [0.5, 0.0][round % 2]);
            values.sort_by(f32::total_cmp);
            let weights = [0.0; 32].map(|_: f32| if round % 5 == 0 { 1.0 } else { random() + 0.001 });
            assert_eq!(
                partition(&values, &weights, true),
                partition(&values, &weights, false),
                "seed 5, round {round}"
            );
        }
    }
}
