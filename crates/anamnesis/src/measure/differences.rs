//! Differences between the values of two tensors: the measurement behind a comparison.

use anamnesis_kernels::Level;
use anamnesis_kernels::measure::{Difference, measure_difference};

use super::blocks::Measure;
use crate::error::Result;
use crate::pipeline::Distance;
use crate::scheme::coder::filled;

/// Measures the differences of every pair of tensors.
pub(super) struct MeasureDifferences;

/// Sums over pairs of values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Differences {
    /// Number of pairs whose bits differ.
    pub unequal: u64,
    /// Number of these that are not both finite and not both NaN.
    pub incomparable: u64,
    /// The largest difference of finite values.
    pub largest: f64,
    /// Sums over pairs of finite values.
    pub distance: Distance,
}

impl Measure for MeasureDifferences {
    const TENSORS: u64 = 2;
    type Sums = Differences;

    fn block(&self, _job: usize, values: &[&[[u8; 4]]], level: Level) -> Result<Differences> {
        let &[first, second] = values else { return Ok(Differences::default()) };
        let mut lanes = Difference::default();
        filled(measure_difference(level, first, second, &mut lanes), first.len())?;
        let total = |counts: [u32; 8]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        let not_finite = total(lanes.not_finite);
        let is_finite = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes).is_finite();
        let keep = |index: usize| not_finite == 0 || is_finite(&first[index]) && is_finite(&second[index]);
        let before: Vec<f32> = first
            .iter()
            .enumerate()
            .map(|(index, bytes)| if keep(index) { f32::from_le_bytes(*bytes) } else { 0.0 })
            .collect();
        let mut distance = match not_finite {
            0 => Distance::between(level, &before, second.as_flattened())?,
            _ => {
                let after = second.iter().enumerate().map(|(index, bytes)| if keep(index) { *bytes } else { [0; 4] });
                Distance::between(level, &before, after.collect::<Vec<_>>().as_flattened())?
            }
        };
        distance.values -= not_finite;
        Ok(Differences {
            unequal: total(lanes.unequal),
            incomparable: total(lanes.incomparable),
            largest: lanes.largest.into_iter().fold(0.0, f64::max),
            distance,
        })
    }

    fn merge(&self, mut first: Differences, second: &Differences) -> Differences {
        first.unequal += second.unequal;
        first.incomparable += second.incomparable;
        first.largest = first.largest.max(second.largest);
        first.distance.add(&second.distance);
        first
    }
}
