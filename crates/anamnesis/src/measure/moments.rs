//! Moments of the values of a tensor: the measurement behind statistics.

use anamnesis_kernels::Level;
use anamnesis_kernels::measure::{
    LANES, Moments as BlockMoments, NEAR_BINS, add_squares, count_bins, count_near_bins, count_outliers,
    measure_moments, sum_of_lanes,
};

use super::blocks::Measure;
use super::histogram::{FloatKind, Histogram};
use super::tails::Tails;
use crate::error::Result;
use crate::scheme::coder::filled;

/// Measures the moments of every tensor.
pub(super) struct MeasureMoments;

/// Counts of all values, and sums of the finite ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    pub finite: u64,
    pub zeros: u64,
    pub nan: u64,
    pub infinite: u64,
    /// The least and the greatest finite value.
    pub range: Option<(f64, f64)>,
    pub sum: f64,
    /// The sum of squared distances from the mean.
    pub squares: f64,
    pub histogram: Histogram,
    pub tails: Tails,
}

impl Moments {
    /// The mean of the finite values; 0 if there are none.
    pub(super) fn mean(&self) -> f64 {
        if self.finite == 0 { 0.0 } else { self.sum / self.finite as f64 }
    }

    /// The standard deviation of the finite values; 0 if there are none.
    pub(super) fn deviation(&self) -> f64 {
        if self.finite == 0 { 0.0 } else { (self.squares / self.finite as f64).sqrt() }
    }
}

impl Measure for MeasureMoments {
    const TENSORS: u64 = 1;
    type Sums = Moments;

    fn block(&self, _job: usize, values: &[&[[u8; 4]]], level: Level) -> Result<Moments> {
        let [values] = values else { return Ok(Moments::default()) };
        let mut lanes = BlockMoments::default();
        filled(measure_moments(level, values, &mut lanes), values.len())?;
        let total = |counts: [u32; 8]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        let (nan, infinite) = (total(lanes.nan), total(lanes.infinite));
        let mut moments = Moments {
            finite: values.len() as u64 - nan - infinite,
            zeros: total(lanes.zeros),
            nan,
            infinite,
            sum: sum_of_lanes(lanes.sum),
            ..Moments::default()
        };
        if moments.finite == 0 {
            return Ok(moments);
        }
        let min = lanes.min.into_iter().fold(f32::INFINITY, f32::min);
        let max = lanes.max.into_iter().fold(f32::NEG_INFINITY, f32::max);
        // Adding zero makes a negative zero positive: which of them is found depends on the order of values.
        let range = (f64::from(min) + 0.0, f64::from(max) + 0.0);
        moments.range = Some(range);
        let mut squares = [0.0; 8];
        filled(add_squares(level, values, moments.mean(), &mut squares), values.len())?;
        moments.squares = sum_of_lanes(squares);
        moments.tails = Tails::of_block(values, range, moments.mean(), moments.deviation());
        let mut histogram = Histogram::covering(min.into(), max.into(), FloatKind::F32);
        match histogram.near_scale().filter(|_| moments.finite == values.len() as u64) {
            Some((scale, first)) => {
                let mut counts = [0; NEAR_BINS];
                filled(count_near_bins(level, values, scale, first, &mut counts), values.len())?;
                histogram.add_counts(&counts);
            }
            None => {
                let mut counts = [0; 256];
                let first = histogram.first() as f64;
                filled(count_bins(level, values, histogram.scale(), first, &mut counts), values.len())?;
                histogram.add_counts(&counts);
            }
        }
        moments.histogram = histogram;
        Ok(moments)
    }

    fn merge(&self, mut first: Moments, second: &Moments) -> Moments {
        first.zeros += second.zeros;
        first.nan += second.nan;
        first.infinite += second.infinite;
        if first.finite > 0 && second.finite > 0 {
            let distance = second.mean() - first.mean();
            let (a, b) = (first.finite as f64, second.finite as f64);
            first.squares = first.squares + second.squares + distance * distance * (a * b / (a + b));
            first.sum += second.sum;
        } else if second.finite > 0 {
            (first.sum, first.squares) = (second.sum, second.squares);
        }
        first.finite += second.finite;
        first.range = match (first.range, second.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        first.histogram.add(&second.histogram);
        first.tails.merge(&second.tails);
        first
    }
}

/// Counts the values of every tensor that are far from its mean.
pub(super) struct CountOutliers {
    /// The mean of every job, and the largest distance from it that is not counted.
    pub limits: Vec<(f64, f64)>,
}

impl Measure for CountOutliers {
    const TENSORS: u64 = 1;
    type Sums = u64;

    fn block(&self, job: usize, values: &[&[[u8; 4]]], level: Level) -> Result<u64> {
        let (Some(&(mean, limit)), [values]) = (self.limits.get(job), values) else { return Ok(0) };
        let mut lanes = [0; LANES];
        filled(count_outliers(level, values, mean, limit, &mut lanes), values.len())?;
        Ok(lanes.iter().map(|&count| u64::from(count)).sum())
    }

    fn merge(&self, first: u64, second: &u64) -> u64 {
        first + second
    }
}
