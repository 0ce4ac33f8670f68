//! The nearest of the neighbouring grid points of a tuple of levels: `iq2_find_best_neighbour`,
//! `iq3_find_best_neighbour` and `iq1_find_best_neighbour` of ggml.
//!
//! The weighted squared distance of each level of each element is computed once; the distance of a point is the sum
//! over its levels, in the order of its elements. Sums of distances rounded to bytes, whose error is bounded, rule out
//! most points; only the rest are compared exactly.

use super::levels::level;
use crate::base::GROUP;
use crate::base::simd::{FEW, Points, Simd, Tables};

/// The values and weights of `D` elements, each repeated for all levels of the element.
pub(super) struct Target<const D: usize> {
    values: [f32; GROUP],
    weights: [f32; GROUP],
}

/// Levels per element: four for `D` = 8, of which the last is not used, and eight for `D` = 4.
const fn levels<const D: usize>() -> usize {
    GROUP / D
}

/// The value of each level, repeated for each of `D` elements.
pub(super) const fn level_values<const D: usize>(of_levels: &[f32]) -> [f32; GROUP] {
    let mut level_values = [0.0; GROUP];
    let mut i = 0;
    while i < GROUP {
        let level = i % levels::<D>();
        level_values[i] = if level < of_levels.len() { of_levels[level] } else { 0.0 };
        i += 1;
    }
    level_values
}

impl<const D: usize> Target<D> {
    #[inline(always)]
    pub(super) fn new(values: &[f32; D], weights: &[f32; D]) -> Self {
        let mut target = Self { values: [0.0; GROUP], weights: [0.0; GROUP] };
        for i in 0..GROUP {
            (target.values[i], target.weights[i]) = (values[i / levels::<D>()], weights[i / levels::<D>()]);
        }
        target
    }

    /// The weighted squared distance of each level of each element under a scale.
    #[inline(always)]
    pub(super) fn terms(&self, level_values: &[f32; GROUP], scale: f32) -> [f32; GROUP] {
        let mut terms = [0.0; GROUP];
        for i in 0..GROUP {
            let difference = scale * level_values[i] - self.values[i];
            terms[i] = self.weights[i] * difference * difference;
        }
        terms
    }
}

/// Weights that map distances to integers up to 255, for the comparison in bytes.
pub(super) struct ByteDistance<const D: usize> {
    values: [f32; GROUP],
    weights: [f32; GROUP],
}

impl<const D: usize> ByteDistance<D> {
    /// Distances within these bounds lose no precision to overflow or underflow.
    const SAFE: std::ops::Range<f32> = 1e-25..1e25;

    /// Scales the weights of `target`, whose largest value is about `size`, such that a value halfway between two
    /// levels counts `unit` at the mean weight. `None` if distances could overflow or underflow.
    #[inline(always)]
    pub(super) fn new(target: &Target<D>, size: f32, unit: f32) -> Option<Self> {
        let mean = target.weights.iter().sum::<f32>() / GROUP as f32;
        let mut weights = [0.0; GROUP];
        for i in 0..GROUP {
            weights[i] = target.weights[i] * (unit / mean);
        }
        let is_safe = Self::SAFE.contains(&(mean * size * size)) && Self::SAFE.contains(&mean);
        is_safe.then_some(Self { values: target.values, weights })
    }

    /// The distance of each level of each element in units of a byte, from the inverse of the scale.
    #[inline(always)]
    fn terms_in_bytes(&self, level_values: &[f32; GROUP], inverse: f32) -> [f32; GROUP] {
        let mut terms_in_bytes = [0.0; GROUP];
        for i in 0..GROUP {
            let difference = level_values[i] - inverse * self.values[i];
            terms_in_bytes[i] = self.weights[i] * difference * difference;
        }
        terms_in_bytes
    }
}

/// The neighbouring points of a tuple of levels, nearest first.
#[derive(Clone, Copy)]
pub(super) struct Neighbours<'a, const D: usize> {
    groups: &'a [Points],
    count: usize,
}

/// The distance of a point.
#[inline(always)]
fn distance<const D: usize>(terms: &[f32; GROUP], point: u16) -> f32 {
    let mut sum = 0.0;
    for element in 0..D {
        sum += terms[element * levels::<D>() + usize::from(level::<D>(point, element)) % levels::<D>()];
    }
    sum
}

#[inline(always)]
fn point(group: &Points, place: usize) -> u16 {
    u16::from_le_bytes([group[0][place], group[1][place]])
}

impl<'a, const D: usize> Neighbours<'a, D> {
    /// The distance in bytes that the first point is scaled to.
    const TOP: f32 = 250.0;

    #[inline(always)]
    pub(super) fn new(groups: &'a [Points], count: usize) -> Self {
        Self { groups, count }
    }

    /// [`nearest`](Self::nearest) by distances in bytes, where these do not saturate.
    #[inline(always)]
    pub(super) fn nearest_by_bytes<S: Simd>(
        &self,
        simd: S,
        bytes: &ByteDistance<D>,
        target: &Target<D>,
        level_values: &[f32; GROUP],
        inverse: f32,
    ) -> u16 {
        if self.count <= FEW {
            return self.nearest_of_few(simd, &target.terms(level_values, 1.0 / inverse));
        }
        let tables = simd.tables::<D>(&bytes.terms_in_bytes(level_values, inverse));
        let least = simd.least(&tables, self.groups);
        if usize::from(least) + D >= 255 {
            return self.nearest(simd, &target.terms(level_values, 1.0 / inverse));
        }
        self.nearest_of_close(simd, &tables, least, || target.terms(level_values, 1.0 / inverse))
    }

    /// The nearest of at most [`FEW`] points, which are compared exactly at once.
    #[inline(always)]
    fn nearest_of_few<S: Simd>(&self, simd: S, terms: &[f32; GROUP]) -> u16 {
        let Some(group) = self.groups.first() else { return 0 };
        point(group, simd.nearest_of_few::<D>(terms, group) % FEW)
    }

    /// The point with the smallest distance, the first of several.
    #[inline(always)]
    pub(super) fn nearest<S: Simd>(&self, simd: S, terms: &[f32; GROUP]) -> u16 {
        let Some(group) = self.groups.first() else { return 0 };
        if self.count <= FEW {
            return self.nearest_of_few(simd, terms);
        }
        let mut least = [0.0; D];
        for (least, terms) in least.iter_mut().zip(terms.chunks_exact(levels::<D>())) {
            let used = if D == 8 { 3 } else { levels::<D>() };
            *least = terms[1..used].iter().fold(terms[0], |least, term| if *term < least { *term } else { least });
        }
        let below = least.iter().sum::<f32>();
        let factor = Self::TOP / (distance::<D>(terms, point(group, 0)) - below);
        // Beyond these, rounding errors of the distances may be as large as one unit of a byte.
        let is_below_zero = least.iter().any(|least| *least < 0.0);
        if is_below_zero || !(factor > 0.0 && factor < 1e25 && below * factor < 2e5) {
            return self.nearest_of_all(terms);
        }
        let mut above = [0.0; GROUP];
        for i in 0..GROUP {
            above[i] = (terms[i] - least[i / levels::<D>()]) * factor;
        }
        let tables = simd.tables::<D>(&above);
        let least = simd.least(&tables, self.groups);
        self.nearest_of_close(simd, &tables, least, || *terms)
    }

    /// The nearest of the points whose sums are close to the smallest.
    ///
    /// Each element is rounded by 1/2 at most, so a sum and its distance differ by `D` / 2 at most: a point whose sum
    /// exceeds the smallest by more than `D` cannot be the nearest.
    #[inline(always)]
    fn nearest_of_close<S: Simd>(
        &self,
        simd: S,
        tables: &Tables,
        least: u8,
        terms: impl FnOnce() -> [f32; GROUP],
    ) -> u16 {
        let limit = least.saturating_add(D as u8);
        let left = |index: usize, group: &Points| {
            let places = self.count - GROUP * index;
            simd.at_most(tables, group, limit) & if places < GROUP { (1 << places) - 1 } else { u32::MAX }
        };
        let (mut first, mut count) = (None, 0);
        for (index, group) in self.groups.iter().enumerate() {
            let bits = left(index, group);
            count += bits.count_ones();
            if bits != 0 && first.is_none() {
                first = Some(point(group, bits.trailing_zeros() as usize));
            }
        }
        if let (Some(first), 1) = (first, count) {
            return first;
        }
        let terms = terms();
        let (mut best, mut found) = (f32::MAX, first.unwrap_or(0));
        for (index, group) in self.groups.iter().enumerate() {
            let mut bits = left(index, group);
            while bits != 0 {
                let point = point(group, bits.trailing_zeros() as usize);
                bits &= bits - 1;
                let distance = distance::<D>(&terms, point);
                if distance < best {
                    (best, found) = (distance, point);
                }
            }
        }
        found
    }

    /// [`nearest`](Self::nearest) where distances in bytes cannot decide.
    #[inline(never)]
    fn nearest_of_all(&self, terms: &[f32; GROUP]) -> u16 {
        let Some(group) = self.groups.first() else { return 0 };
        let (mut best, mut found) = (f32::MAX, point(group, 0));
        for place in 0..self.count {
            let point = point(&self.groups[place / GROUP], place % GROUP);
            let distance = distance::<D>(terms, point);
            if distance < best {
                (best, found) = (distance, point);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::simd::Portable;
    use crate::decode::ggml::tables;
    use crate::encode::ggml::grid::LazyGrid;

    /// Pseudo-random numbers from 0 to 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / 16_777_216.0
        }
    }

    /// Compares all searches for the nearest point for random values of every magnitude.
    fn check<S: Simd, const D: usize>(simd: S, grid: &LazyGrid<D>, levels: u16) {
        let (grid, seed) = (grid.get(), 11);
        let mut random = Random(seed);
        let level_values = level_values::<D>(&[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
        for round in 0..20_000 {
            let unit = 10f32.powi(round % 60 - 30);
            let scale = unit * (0.5 + random.next());
            let sparse = random.next() < 0.2;
            let mut values = [0.0; D];
            let mut weights = [0.0; D];
            let mut packed = 0;
            for element in 0..D {
                let level = (random.next() * f32::from(levels)) as u16;
                packed |= level << (16 / D * element);
                values[element] = scale * (f32::from(2 * level + 1) + 3.0 * random.next() - 1.5);
                weights[element] = if sparse && random.next() < 0.5 { 0.0 } else { random.next() };
            }
            let Some(neighbours) = grid.neighbours(packed) else { continue };
            let target = Target::new(&values, &weights);
            let terms = target.terms(&level_values, scale);
            let expected = neighbours.nearest_of_all(&terms);
            assert_eq!(neighbours.nearest(simd, &terms), expected, "seed {seed}, round {round}");
            let inverse = 1.0 / scale;
            let terms = target.terms(&level_values, 1.0 / inverse);
            let expected = neighbours.nearest_of_all(&terms);
            let size = f32::from(2 * levels - 1) * scale;
            if let Some(bytes) = ByteDistance::new(&target, size, grid.unit()) {
                let found = neighbours.nearest_by_bytes(simd, &bytes, &target, &level_values, inverse);
                assert_eq!(found, expected, "seed {seed}, round {round}");
            }
        }
    }

    static EIGHTS: [LazyGrid<8>; 4] = [
        LazyGrid::new(&tables::IQ2_XXS, 3, 2, 16.0),
        LazyGrid::new(&tables::IQ2_XS, 3, 2, 18.0),
        LazyGrid::new(&tables::IQ2_S, 3, 1, 40.0),
        LazyGrid::new(&tables::IQ1, 3, 3, 40.0),
    ];
    static FOURS: [LazyGrid<4>; 2] =
        [LazyGrid::new(&tables::IQ3_XXS, 8, 2, 10.0), LazyGrid::new(&tables::IQ3_S, 8, 3, 16.0)];

    fn check_all<S: Simd>(simd: S) {
        EIGHTS.iter().for_each(|grid| check(simd, grid, 3));
        FOURS.iter().for_each(|grid| check(simd, grid, 8));
    }

    #[test]
    fn points_ruled_out_in_bytes_are_never_the_nearest() {
        check_all(Portable);
        #[cfg(target_arch = "x86_64")]
        {
            use crate::base::simd::{V3, V4};
            V3::detect().into_iter().for_each(check_all);
            V4::detect().into_iter().for_each(check_all);
        }
    }
}
