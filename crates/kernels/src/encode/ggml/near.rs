//! The nearest of the neighbouring points of a tuple of levels: `iq2_find_best_neighbour`, `iq3_find_best_neighbour` and
//! `iq1_find_best_neighbour` of ggml.
//!
//! The distance of each level of each element is computed once; the distance of a point is the sum of those of its levels,
//! in the order of its elements. Most points are ruled out by sums of whole numbers up to 255, which are as far from the
//! distances as is known, and only those that are left have theirs compared.

use super::levels::level;
use crate::base::GROUP;
use crate::base::simd::{FEW, Points, Simd, Tables};

/// The numbers of `D` elements and what they weigh, each repeated for all of its levels.
pub(super) struct Target<const D: usize> {
    values: [f32; GROUP],
    weights: [f32; GROUP],
}

/// Levels of each of `D` elements: four of eight, of which the last is not used, or eight of four.
const fn levels<const D: usize>() -> usize {
    GROUP / D
}

/// The value of each level, repeated for each of `D` elements.
pub(super) const fn numbers<const D: usize>(of_levels: &[f32]) -> [f32; GROUP] {
    let mut numbers = [0.0; GROUP];
    let mut i = 0;
    while i < GROUP {
        let level = i % levels::<D>();
        numbers[i] = if level < of_levels.len() { of_levels[level] } else { 0.0 };
        i += 1;
    }
    numbers
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

    /// The distance of each level of each element under a scale.
    #[inline(always)]
    pub(super) fn terms(&self, numbers: &[f32; GROUP], scale: f32) -> [f32; GROUP] {
        let mut terms = [0.0; GROUP];
        for i in 0..GROUP {
            let apart = scale * numbers[i] - self.values[i];
            terms[i] = self.weights[i] * apart * apart;
        }
        terms
    }
}

/// The weights by which distances become integers up to 255, for the rough comparison.
pub(super) struct Rough<const D: usize> {
    values: [f32; GROUP],
    weights: [f32; GROUP],
}

impl<const D: usize> Rough<D> {
    /// Distances within these bounds are as exact as numbers can be.
    const PROPER: std::ops::Range<f32> = 1e-25..1e25;

    /// Numbers whose largest is about `size`. A number that is a level's half away from it counts a `unit` if it weighs as
    /// much as the others. Nothing where distances would be too small or too large to be compared by anything but
    /// themselves.
    #[inline(always)]
    pub(super) fn new(target: &Target<D>, size: f32, unit: f32) -> Option<Self> {
        let mean = target.weights.iter().sum::<f32>() / GROUP as f32;
        let mut weights = [0.0; GROUP];
        for i in 0..GROUP {
            weights[i] = target.weights[i] * (unit / mean);
        }
        let is_proper = Self::PROPER.contains(&(mean * size * size)) && Self::PROPER.contains(&mean);
        is_proper.then_some(Self { values: target.values, weights })
    }

    /// The rough distance of each level of each element, from the inverse of the scale.
    #[inline(always)]
    fn counts(&self, numbers: &[f32; GROUP], inverse: f32) -> [f32; GROUP] {
        let mut counts = [0.0; GROUP];
        for i in 0..GROUP {
            let apart = numbers[i] - inverse * self.values[i];
            counts[i] = self.weights[i] * apart * apart;
        }
        counts
    }
}

/// The points around some levels, in the order of their distance.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a, const D: usize> {
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

impl<'a, const D: usize> Surroundings<'a, D> {
    /// The largest rough distance of the first point.
    const TOP: f32 = 250.0;

    #[inline(always)]
    pub(super) fn new(groups: &'a [Points], count: usize) -> Self {
        Self { groups, count }
    }

    /// [`nearest`](Self::nearest) by what is counted, where that is not too much.
    #[inline(always)]
    pub(super) fn roughly_nearest<S: Simd>(
        &self,
        simd: S,
        rough: &Rough<D>,
        target: &Target<D>,
        numbers: &[f32; GROUP],
        inverse: f32,
    ) -> u16 {
        if self.count <= FEW {
            return self.nearest_of_few(simd, &target.terms(numbers, 1.0 / inverse));
        }
        let tables = simd.tables::<D>(&rough.counts(numbers, inverse));
        let least = simd.least(&tables, self.groups);
        if usize::from(least) + D >= 255 {
            return self.nearest(simd, &target.terms(numbers, 1.0 / inverse));
        }
        self.among(simd, &tables, least, || target.terms(numbers, 1.0 / inverse))
    }

    /// The nearest of so few points that all are compared at once.
    #[inline(always)]
    fn nearest_of_few<S: Simd>(&self, simd: S, terms: &[f32; GROUP]) -> u16 {
        let Some(group) = self.groups.first() else { return 0 };
        point(group, simd.nearest_of_few::<D>(terms, group) % FEW)
    }

    /// The point with the least distance, the first of several.
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
        // Beyond, rounding errors of the distances may be as large as one rough unit.
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
        self.among(simd, &tables, least, || *terms)
    }

    /// The nearest of the points whose sums are not far from the least.
    ///
    /// Every element is rounded by a half at most, so that a sum and a distance differ by half of `D`: who is above the least
    /// sum by more than `D` is farther away than whoever has it.
    #[inline(always)]
    fn among<S: Simd>(&self, simd: S, tables: &Tables, least: u8, terms: impl FnOnce() -> [f32; GROUP]) -> u16 {
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

    /// [`nearest`](Self::nearest) where rough distances cannot decide.
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
    use crate::encode::ggml::grid::Lazy;

    /// Numbers from 0 to 1, whatever their order.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / 16_777_216.0
        }
    }

    /// Compares all ways to the nearest point for random numbers of every size, at every level of this CPU.
    fn check<S: Simd, const D: usize>(simd: S, grid: &Lazy<D>, levels: u16) {
        let (grid, seed) = (grid.get(), 11);
        let mut random = Random(seed);
        let numbers = numbers::<D>(&[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
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
            let Some(around) = grid.around(packed) else { continue };
            let target = Target::new(&values, &weights);
            let terms = target.terms(&numbers, scale);
            let expected = around.nearest_of_all(&terms);
            assert_eq!(around.nearest(simd, &terms), expected, "seed {seed}, round {round}");
            let inverse = 1.0 / scale;
            let terms = target.terms(&numbers, 1.0 / inverse);
            let expected = around.nearest_of_all(&terms);
            let size = f32::from(2 * levels - 1) * scale;
            if let Some(rough) = Rough::new(&target, size, grid.unit()) {
                let found = around.roughly_nearest(simd, &rough, &target, &numbers, inverse);
                assert_eq!(found, expected, "seed {seed}, round {round}");
            }
        }
    }

    static EIGHTS: [Lazy<8>; 4] = [
        Lazy::new(&tables::IQ2_XXS, 3, 2, 16.0),
        Lazy::new(&tables::IQ2_XS, 3, 2, 18.0),
        Lazy::new(&tables::IQ2_S, 3, 1, 40.0),
        Lazy::new(&tables::IQ1, 3, 3, 40.0),
    ];
    static FOURS: [Lazy<4>; 2] = [Lazy::new(&tables::IQ3_XXS, 8, 2, 10.0), Lazy::new(&tables::IQ3_S, 8, 3, 16.0)];

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
