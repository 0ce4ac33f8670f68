//! Where to cut sorted values into a low, a middle and a high part, by the scores of all cuts.
//!
//! ggml tries one way after the other and takes each that is better than the best so far. The score of a way is
//! `qx² ÷ q2`, and both sums are made of what the first cut adds and what the second adds. So all scores are found roughly,
//! side by side; those that are not far below the best are left, and tried one after the other as ggml does.
//!
//! Ways that are left out change nothing. Roughly found scores differ from ggml's by less than a thousandth of the best,
//! what is left out is at least three thousandths below it, and whether a way is better is rounded by less than a
//! three-millionth. So among the thousand ways there must be one that is clearly better than all before it, above the
//! best score less two thousandths: whoever was the best before, that one is taken, and from there on nothing is that was
//! left out.

use crate::base::GROUP;
use crate::base::simd::Simd;

/// The best way to cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    score: f32,
    pub(super) scale: f32,
    pub(super) first: usize,
    pub(super) second: usize,
    /// Which offsets.
    pub(super) way: usize,
}

/// The two sums of a way to cut, as ggml computes them.
pub(super) struct Sums {
    pub(super) qx: f32,
    pub(super) q2: f32,
}

impl Cut {
    /// Takes a way to cut if it is better.
    #[inline(always)]
    fn improve(best: &mut Option<Self>, [first, second, way]: [usize; 3], Sums { qx, q2 }: Sums) {
        let score = best.map_or(-f32::MAX, |best| best.score);
        if q2 > 0.0 && qx * qx > score * q2 {
            let scale = qx / q2;
            *best = Some(Self { score: scale * qx, scale, first, second, way });
        }
    }
}

/// The terms that cuts add to the sums of each way, normalised to 1: cuts of `N` values at `N + 1` places.
pub(super) struct Parts<const N: usize, const WAYS: usize> {
    /// `qx` of all values without a cut.
    pub(super) all: [f32; WAYS],
    /// The term of either cut in `qx`, by place; the last place is separate.
    pub(super) taken: ([f32; N], f32),
    /// The term of the first cut in `q2`.
    pub(super) first: ([[f32; N]; WAYS], [f32; WAYS]),
    /// The term of the second cut in `q2`.
    pub(super) second: ([[f32; N]; WAYS], [f32; WAYS]),
}

/// Ways that may be left.
const LEFT: usize = 96;

/// Groups of the ways of a first cut.
const GROUPS: usize = 2;

/// The ways of [`Parts`] side by side: of one first cut all second cuts but the last, way by way.
struct Rows<'a, const N: usize, const WAYS: usize> {
    parts: &'a Parts<N, WAYS>,
    all: [[f32; GROUP]; GROUPS],
    taken: [f32; GROUP],
    first: [[f32; GROUP]; GROUPS],
    second: [[f32; GROUP]; GROUPS],
    places: [f32; GROUP],
}

impl<'a, const N: usize, const WAYS: usize> Rows<'a, N, WAYS> {
    /// The way and the cut that a place of a group belongs to.
    #[inline(always)]
    fn at(group: usize, place: usize) -> (usize, usize) {
        (group * (GROUP / N) + place / N, place % N)
    }

    #[inline(always)]
    fn new(parts: &'a Parts<N, WAYS>) -> Self {
        let empty = [[0.0; GROUP]; GROUPS];
        let mut rows =
            Self { parts, all: empty, taken: [0.0; GROUP], first: empty, second: empty, places: [0.0; GROUP] };
        for group in 0..GROUPS {
            for place in 0..GROUP {
                let (way, cut) = Self::at(group, place);
                rows.all[group][place] = parts.all[way];
                rows.first[group][place] = parts.first.0[way][cut];
                rows.second[group][place] = parts.second.0[way][cut];
            }
        }
        for place in 0..GROUP {
            (rows.taken[place], rows.places[place]) = (parts.taken.0[place % N], (place % N) as f32);
        }
        rows
    }

    /// `qx²` and `q2` of all second cuts with this first one; nothing for those before it.
    #[inline(always)]
    fn of_first(&self, cut: usize, group: usize) -> ([f32; GROUP], [f32; GROUP]) {
        let (mut qx2, mut q2) = ([0.0; GROUP], [0.0; GROUP]);
        let mut first = [0.0; GROUP];
        for (half, first) in first.chunks_exact_mut(N).enumerate() {
            first.fill(self.parts.first.0[group * (GROUP / N) + half][cut]);
        }
        let (taken, cut) = (self.parts.taken.0[cut], cut as f32);
        for i in 0..GROUP {
            let qx = self.all[group][i] - (taken + self.taken[i]);
            qx2[i] = if self.places[i] >= cut { qx * qx } else { 0.0 };
            q2[i] = first[i] + self.second[group][i];
        }
        (qx2, q2)
    }

    /// `qx²` and `q2` of all first cuts but the last, with the second at the end.
    #[inline(always)]
    fn of_end(&self, group: usize) -> ([f32; GROUP], [f32; GROUP]) {
        let (mut qx2, mut q2) = ([0.0; GROUP], [0.0; GROUP]);
        for i in 0..GROUP {
            let qx = self.all[group][i] - (self.taken[i] + self.parts.taken.1);
            qx2[i] = qx * qx;
            q2[i] = self.first[group][i] + self.parts.second.1[Self::at(group, i).0];
        }
        (qx2, q2)
    }

    /// `qx²` and `q2` of both cuts at the end.
    #[inline(always)]
    fn last(&self, way: usize) -> (f32, f32) {
        let qx = self.parts.all[way] - (self.parts.taken.1 + self.parts.taken.1);
        (qx * qx, self.parts.first.1[way] + self.parts.second.1[way])
    }

    /// The best of all scores.
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
            for cut in 0..N {
                take(self.of_first(cut, group));
            }
            take(self.of_end(group));
        }
        let best = (0..GROUP).fold(0.0, |best: f32, i| best.max(best_qx2[i] / best_q2[i]));
        (0..WAYS).map(|way| self.last(way)).fold(best, |best, (qx2, q2)| best.max(qx2 / q2))
    }

    /// The ways whose scores are not below a limit, in the order in which ggml tries them: where both cuts are, and the
    /// way. Nothing if there are too many.
    #[inline(always)]
    fn left<S: Simd>(&self, simd: S, limit: f32, left: &mut [u32; LEFT]) -> Option<usize> {
        let mut count = 0;
        let mut put = |first: usize, second: usize, way: usize| -> Option<()> {
            *left.get_mut(count)? = (first << 16 | second << 8 | way) as u32;
            count += 1;
            Some(())
        };
        let above = |(qx2, mut q2): ([f32; GROUP], [f32; GROUP])| {
            q2.iter_mut().for_each(|q2| *q2 *= limit);
            simd.not_below(&qx2, &q2)
        };
        for group in 0..GROUPS {
            for cut in 0..=N {
                let mut bits = above(if cut < N { self.of_first(cut, group) } else { self.of_end(group) });
                while bits != 0 {
                    let (way, at) = Self::at(group, bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                    let (first, second) = if cut < N { (cut, at) } else { (at, N) };
                    put(first, second, way)?;
                }
            }
        }
        for way in 0..WAYS {
            let (qx2, q2) = self.last(way);
            if qx2 >= limit * q2 {
                put(N, N, way)?;
            }
        }
        left[..count].sort_unstable();
        Some(count)
    }
}

/// The best of all ways to cut `N` values, whose sums are roughly these `parts` and exactly `sums`.
#[inline(always)]
pub(super) fn best<S: Simd, const N: usize, const WAYS: usize>(
    simd: S,
    parts: Option<&Parts<N, WAYS>>,
    sums: impl Fn(usize, usize, usize) -> Sums,
) -> Option<Cut> {
    /// Candidates are kept if their score is above this part of the best.
    const LIMIT: f32 = 0.996;
    /// Below, roughly found scores are too rough.
    const LEAST: f32 = 1e-3;
    let mut cut = None;
    if let Some(parts) = parts {
        let rows = Rows::new(parts);
        let best = rows.best();
        let mut left = [0; LEFT];
        if best > LEAST
            && best < 1e3
            && let Some(count) = rows.left(simd, LIMIT * best, &mut left)
        {
            for place in &left[..count] {
                let [way, second, first, _] = place.to_le_bytes().map(usize::from);
                Cut::improve(&mut cut, [first, second, way], sums(first, second, way));
            }
            return cut;
        }
    }
    for first in 0..=N {
        for second in first..=N {
            for way in 0..WAYS {
                Cut::improve(&mut cut, [first, second, way], sums(first, second, way));
            }
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::simd::Portable;

    /// The best of all cuts of `values` by two ways, found from `parts` or one after the other.
    fn cut(values: &[f32; 32], weights: &[f32; 32], is_rough: bool) -> Option<[u32; 5]> {
        const WAYS: [[f32; 3]; 2] = [[-0.875, 0.125, 1.125], [-1.125, -0.125, 0.875]];
        let (mut sum_x, mut sum_w) = ([0.0f32; 33], [0.0f32; 33]);
        for i in 0..32 {
            sum_x[i + 1] = sum_x[i] + weights[i] * values[i];
            sum_w[i + 1] = sum_w[i] + weights[i];
        }
        let sums = |first: usize, second: usize, way: usize| {
            let [low, middle, high] = WAYS[way];
            let of = |sums: &[f32; 33], [low, middle, high]: [f32; 3]| {
                sums[first] * low + (sums[second] - sums[first]) * middle + (sums[32] - sums[second]) * high
            };
            Sums { qx: of(&sum_x, WAYS[way]), q2: of(&sum_w, [low * low, middle * middle, high * high]) }
        };
        let size: f32 = values.iter().zip(weights).map(|(value, weight)| (value * weight).abs()).sum();
        let (unit_x, unit_w) = (1.0 / size, 1.0 / sum_w[32]);
        let first = |way: usize| WAYS[way][0] * WAYS[way][0] - WAYS[way][1] * WAYS[way][1];
        let second = |way: usize| WAYS[way][1] * WAYS[way][1] - WAYS[way][2] * WAYS[way][2];
        let of_first = |way: usize, cut: usize| sum_w[cut] * unit_w * first(way);
        let of_second = |way: usize, cut: usize| {
            sum_w[cut] * unit_w * second(way) + sum_w[32] * unit_w * WAYS[way][2] * WAYS[way][2]
        };
        let parts = Parts::<32, 2> {
            all: [0, 1].map(|way| sum_x[32] * unit_x * WAYS[way][2]),
            taken: (std::array::from_fn(|cut| sum_x[cut] * unit_x), sum_x[32] * unit_x),
            first: (
                [0, 1].map(|way| std::array::from_fn(|cut| of_first(way, cut))),
                [0, 1].map(|way| of_first(way, 32)),
            ),
            second: (
                [0, 1].map(|way| std::array::from_fn(|cut| of_second(way, cut))),
                [0, 1].map(|way| of_second(way, 32)),
            ),
        };
        let found = best(Portable, is_rough.then_some(&parts), sums)?;
        Some([found.score.to_bits(), found.scale.to_bits(), found.first as u32, found.second as u32, found.way as u32])
    }

    #[test]
    fn the_best_of_all_cuts_is_among_those_that_are_left() {
        let mut state = 5u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0
        };
        for round in 0..3000 {
            let mut values = [0.0; 32];
            // Few different values make many cuts equal.
            let steps = [3.0, 7.0, 1e6][round % 3];
            values.iter_mut().for_each(|value| *value = (random() * steps).floor() / steps - [0.5, 0.0][round % 2]);
            values.sort_by(f32::total_cmp);
            let weights = [0.0; 32].map(|_: f32| if round % 5 == 0 { 1.0 } else { random() + 0.001 });
            assert_eq!(cut(&values, &weights, true), cut(&values, &weights, false), "seed 5, round {round}");
        }
    }
}
