//! The tails of a distribution, kept while its tensor is measured: outliers are counted from them when the mean and the
//! deviation are known, without decoding the tensor again.

/// Half the width of a block's window, in standard deviations of the block. Outliers of a tensor are further from its
/// mean; the distance leaves room for blocks that deviate more than the whole.
const DEVIATIONS: f64 = 4.0;
/// Values in the tails of a tensor: where there would be more, the window grows.
const MAX_VALUES: usize = 1 << 14;
/// Values that are compared at once.
const BATCH: usize = 64;

/// All finite values outside of a window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tails {
    /// The least and the greatest value that is not in the tails. A window of nothing has its ends reversed.
    window: (f64, f64),
    values: Vec<f32>,
}

impl Default for Tails {
    fn default() -> Self {
        Self { window: (f64::INFINITY, f64::NEG_INFINITY), values: Vec::new() }
    }
}

impl Tails {
    /// No tails: all values are in the window.
    pub(super) const fn none(range: (f64, f64)) -> Self {
        Self { window: range, values: Vec::new() }
    }

    /// The tails of a block of F32 values, some of which are finite.
    pub(super) fn of_block(values: &[[u8; 4]], (min, max): (f64, f64), mean: f64, deviation: f64) -> Self {
        let (low, high) = ((mean - DEVIATIONS * deviation) as f32, (mean + DEVIATIONS * deviation) as f32);
        if f64::from(low) <= min && max <= f64::from(high) {
            return Self::none((min, max));
        }
        let value = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        let is_outside = |value: f32| value < low || value > high;
        let has_tails = |batch: &&[[u8; 4]]| batch.iter().fold(false, |any, bytes| any | is_outside(value(bytes)));
        let batches = values.chunks(BATCH).filter(has_tails);
        let tails = batches.flatten().map(value).filter(|value| value.is_finite() && is_outside(*value));
        Self { window: (low.into(), high.into()), values: tails.collect() }
    }

    /// Adds the tails of other values of the same tensor.
    pub(super) fn merge(&mut self, other: &Self) {
        let window = (self.window.0.min(other.window.0), self.window.1.max(other.window.1));
        if window != self.window {
            self.grow(window);
        }
        self.values.extend(other.values.iter().filter(|value| is_outside(window, **value)));
        while self.values.len() > MAX_VALUES {
            let (low, high) = self.window;
            let step = (high - low) / 8.0;
            let is_wider = low - step < low && high + step > high;
            self.grow(if is_wider { (low - step, high + step) } else { (f64::NEG_INFINITY, f64::INFINITY) });
        }
    }

    fn grow(&mut self, window: (f64, f64)) {
        self.window = window;
        self.values.retain(|value| is_outside(window, *value));
    }

    /// The number of values that are further than `limit` from `mean`, if all of them are in the tails.
    pub(super) fn outliers(&self, mean: f64, limit: f64) -> Option<u64> {
        let is_outlier = |value: f64| (value - mean).abs() > limit;
        let (low, high) = self.window;
        let is_known = low > high || !(is_outlier(low) || is_outlier(high));
        is_known.then(|| self.values.iter().filter(|value| is_outlier(f64::from(**value))).count() as u64)
    }
}

fn is_outside((low, high): (f64, f64), value: f32) -> bool {
    let value = f64::from(value);
    value < low || value > high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> Tails {
        let bytes: Vec<_> = values.iter().map(|value| value.to_le_bytes()).collect();
        let finite = || values.iter().copied().filter(|value| value.is_finite()).map(f64::from);
        let count = finite().count() as f64;
        let mean = finite().sum::<f64>() / count;
        let deviation = (finite().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        let range = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        Tails::of_block(&bytes, range, mean, deviation)
    }

    /// Ninety-nine small values and a large one.
    fn block(large: f32) -> Vec<f32> {
        (0..99u8).map(|index| f32::from(index % 3) - 1.0).chain([large]).collect()
    }

    #[test]
    fn values_outside_of_the_window_are_kept() {
        assert_eq!(of(&block(50.0)).values, [50.0]);
        assert_eq!(of(&block(-50.0)).outliers(0.0, 25.0), Some(1));
        assert_eq!(of(&block(1.0)), Tails::none((-1.0, 1.0)));
        let mut values = block(50.0);
        values.extend([f32::NAN, f32::INFINITY]);
        assert_eq!(of(&values).values, [50.0]);
    }

    #[test]
    fn merged_tails_cover_the_values_of_both() {
        let mut tails = of(&block(50.0));
        tails.merge(&of(&block(-70.0)));
        tails.merge(&Tails::none((-1.0, 2.0)));
        assert_eq!(tails.outliers(0.0, 60.0), Some(1));
        assert_eq!(tails.outliers(0.0, 40.0), Some(2));
        // Values of the window may be outliers.
        assert_eq!(tails.outliers(0.0, 3.0), None);
        // A block of large values makes tails of the others part of the window.
        tails.merge(&Tails::none((40.0, 60.0)));
        assert_eq!(tails.outliers(0.0, 60.0), Some(1));
        assert_eq!(tails.outliers(0.0, 40.0), None);
    }

    #[test]
    fn tails_have_a_largest_size() {
        let mut tails = Tails::default();
        for _ in 0..2 * MAX_VALUES {
            tails.merge(&of(&block(50.0)));
        }
        assert!(tails.values.len() <= MAX_VALUES);
        assert_eq!(tails.outliers(0.0, 100.0), Some(0));
        assert_eq!(tails.outliers(0.0, 20.0), None);
    }
}
