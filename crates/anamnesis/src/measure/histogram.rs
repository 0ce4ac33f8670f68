//! Histograms whose bins are multiples of a power of two, so that they can be built in one pass and merged in any order.

/// The maximum number of bins.
const BINS: usize = 32;

/// The type of measured values, whose spacing limits the width of bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloatKind {
    F32,
    F64,
}

impl FloatKind {
    /// The exponent of the spacing of numbers at a magnitude.
    fn spacing(self, magnitude: f64) -> i32 {
        let (least, bits) = match self {
            Self::F32 => (-149, 23),
            Self::F64 => (-1074, 52),
        };
        // The exponent of a normal F64, which all F32 are; subnormal ones have the spacing of the smallest.
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
        (exponent - bits).max(least)
    }
}

/// The distribution of the finite values of a tensor. The width of a bin is the smallest power of two for which 32
/// bins between multiples of the width hold all values, but not less than the spacing of F32 (of F64 for tensors of that
/// type) at the largest magnitude.
/// A value on the border between two bins is in the upper one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    exponent: i32,
    /// The lower border of the first bin, in widths.
    first: i64,
    counts: Vec<u64>,
}

impl Histogram {
    /// The maximum number of bins.
    pub const BINS: usize = BINS;

    /// The width of a bin, a power of two.
    #[must_use]
    pub fn width(&self) -> f64 {
        f64::from(self.exponent).exp2()
    }

    /// The lower border of the first bin.
    #[must_use]
    pub fn start(&self) -> f64 {
        self.first as f64 * self.width()
    }

    /// The number of values in each bin, from the one of the least value to the one of the greatest; empty if there are
    /// no finite values.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The empty histogram of values between `min` and `max`.
    pub(super) fn covering(min: f64, max: f64, kind: FloatKind) -> Self {
        let mut exponent = kind.spacing(min.abs().max(max.abs()));
        while widths(max, exponent) - widths(min, exponent) >= BINS as i64 {
            exponent += 1;
        }
        let first = widths(min, exponent);
        let counts = vec![0; (widths(max, exponent) - first) as usize + 1];
        Self { exponent, first, counts }
    }

    /// The factor that turns a value of F32 into widths.
    pub(super) fn scale(&self) -> f64 {
        f64::from(-self.exponent).exp2()
    }

    /// The factor and the lower border in `f32`, if all values are exact in widths there: see `count_near_bins`.
    pub(super) fn near_scale(&self) -> Option<(f32, f32)> {
        const MOST: i64 = 1 << 22;
        let is_near = self.first > -MOST && self.first + (self.counts.len() as i64) < MOST;
        // Wider bins could make small products subnormal, narrower ones the factor infinite.
        let is_exact = (-126..=0).contains(&self.exponent);
        (is_near && is_exact).then(|| (self.scale() as f32, self.first as f32))
    }

    /// Adds a value between the extremes.
    pub(super) fn count(&mut self, value: f64) {
        let bin = usize::try_from(widths(value, self.exponent) - self.first).ok();
        if let Some(count) = bin.and_then(|bin| self.counts.get_mut(bin)) {
            *count += 1;
        }
    }

    /// The lower border of the first bin, in widths.
    pub(super) const fn first(&self) -> i64 {
        self.first
    }

    /// Adds the numbers of values in each bin.
    pub(super) fn add_counts(&mut self, counts: &[u32]) {
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(*count));
    }

    /// Adds the values of another histogram.
    pub(super) fn add(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            self.clone_from(other);
            return;
        }
        let mut exponent = self.exponent.max(other.exponent);
        let (first, last) = loop {
            let (a, b) = (self.ends(exponent), other.ends(exponent));
            let (first, last) = (a.0.min(b.0), a.1.max(b.1));
            if last - first < BINS as i64 {
                break (first, last);
            }
            exponent += 1;
        };
        let mut counts = vec![0; (last - first) as usize + 1];
        for histogram in [&*self, other] {
            for (bin, count) in (histogram.first..).zip(&histogram.counts) {
                counts[(coarser(bin, exponent - histogram.exponent) - first) as usize] += count;
            }
        }
        *self = Self { exponent, first, counts };
    }

    /// The first and the last bin, in bins of another width.
    fn ends(&self, exponent: i32) -> (i64, i64) {
        let shift = exponent - self.exponent;
        (coarser(self.first, shift), coarser(self.first + self.counts.len() as i64 - 1, shift))
    }
}

/// A bin in bins that are `2^shift` times as wide.
fn coarser(bin: i64, shift: i32) -> i64 {
    bin >> shift.clamp(0, 63)
}

/// A value in widths of `2^exponent`, rounded down. Exact, because a width is at least the spacing at `value`'s
/// magnitude or at a larger one.
fn widths(value: f64, exponent: i32) -> i64 {
    // In two steps, because the inverse of the smallest width is not a number of F64.
    let half = -exponent / 2;
    (value * f64::from(half).exp2() * f64::from(-exponent - half).exp2()).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> Histogram {
        of_kind(&values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>(), FloatKind::F32)
    }

    fn of_kind(values: &[f64], kind: FloatKind) -> Histogram {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut histogram = Histogram::covering(min, max, kind);
        values.iter().for_each(|value| histogram.count(*value));
        histogram
    }

    #[test]
    fn bins_are_as_narrow_as_possible() {
        let histogram = of(&[0.0, 0.5, 31.0]);
        assert_eq!((histogram.width(), histogram.start(), histogram.counts.len()), (1.0, 0.0, 32));
        let histogram = of(&[-0.5, 0.5, 31.0]);
        assert_eq!((histogram.width(), histogram.start(), histogram.counts.len()), (2.0, -2.0, 17));
    }

    #[test]
    fn equal_values_have_one_bin() {
        for value in [0.0, -0.0, 1.0, -1.5, 3e38, 1e-45] {
            let histogram = of(&[value; 3]);
            assert_eq!(histogram.counts, [3]);
            let value = f64::from(value);
            assert!((histogram.start()..histogram.start() + histogram.width()).contains(&value), "{value}");
        }
    }

    #[test]
    fn extreme_values_fit() {
        let histogram = of(&[f32::MIN, f32::MAX, 0.0]);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 3);
        assert!(histogram.counts.len() <= BINS);
    }

    #[test]
    fn wide_values_fit() {
        for values in [[f64::MIN, f64::MAX, 0.0], [5e-324, -5e-324, 0.0], [1.0, 1.0 + f64::EPSILON, 1.0]] {
            let histogram = of_kind(&values, FloatKind::F64);
            assert_eq!(histogram.counts.iter().sum::<u64>(), 3, "{values:?}");
            assert!(histogram.counts.len() > 1 && histogram.counts.len() <= BINS, "{values:?}");
        }
    }

    #[test]
    fn the_order_of_merging_does_not_matter() {
        let values: Vec<f32> =
            (0..1000).map(|index| (index as f32 * 0.37).sin() * 10f32.powi(index / 100 - 5)).collect();
        let whole = of(&values);
        for size in [1, 7, 250] {
            let mut forwards = Histogram::default();
            values.chunks(size).for_each(|chunk| forwards.add(&of(chunk)));
            let mut backwards = Histogram::default();
            values.rchunks(size).for_each(|chunk| backwards.add(&of(chunk)));
            assert_eq!((&forwards, &backwards), (&whole, &whole), "chunks of {size}");
        }
    }
}
