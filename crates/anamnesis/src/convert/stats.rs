//! What a conversion comes to.

use crate::pipeline::{Distance, Plan};

/// What a conversion did with the tensors, or is going to do. A weight counts once, whatever companions it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertStats {
    /// Weights and other tensors of the output.
    pub tensors: usize,
    /// Quantised weights that were decoded, also where they were quantised anew.
    pub dequantized: usize,
    /// Weights that were quantised.
    pub quantized: usize,
    /// Those of them that rules gave another type than the target's.
    pub by_rules: usize,
    /// Tensors that kept their type.
    pub passthrough: usize,
    /// Quantised weights whose codes and scales are the same in another order.
    pub repacked: usize,
    /// Quantised weights that were decoded although their codes and scales would stand for the same numbers: the libraries of
    /// both schemes, which calculate in half precision, would get other last bits. `GroupOptions::same_codes` keeps them.
    pub nearly_repacked: usize,
    /// Plain floats that got another type.
    pub cast: usize,
    /// Decoded weights whose scale beside them was folded in.
    pub folded_scales: usize,
    /// Entries of the input's metadata that the output does not have.
    pub dropped_metadata: usize,
    /// Weights and other tensors of the input that the selection leaves out.
    pub left_out: usize,
}

/// What becomes of a weight or of plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It keeps its type.
    Kept,
    /// Plain floats get another type.
    Cast,
    /// Its codes and scales are the same in another order.
    Repacked,
    Decoded {
        is_folded: bool,
    },
    Quantised {
        was_quantised: bool,
        is_folded: bool,
        /// Whether its codes and scales would stand for the same numbers.
        could_repack: bool,
    },
}

impl Fate {
    /// Whether it is decoded to be quantised again.
    pub(super) const fn loses_twice(self) -> bool {
        matches!(self, Self::Quantised { was_quantised: true, .. })
    }
}

impl ConvertStats {
    /// The statistics of a finished plan.
    pub(super) fn of(fates: &[Fate]) -> Self {
        let count = |is: fn(Fate) -> bool| fates.iter().filter(|fate| is(**fate)).count();
        Self {
            tensors: fates.len(),
            dequantized: count(|fate| matches!(fate, Fate::Decoded { .. }) || fate.loses_twice()),
            quantized: count(|fate| matches!(fate, Fate::Quantised { .. })),
            passthrough: count(|fate| fate == Fate::Kept),
            repacked: count(|fate| fate == Fate::Repacked),
            nearly_repacked: count(|fate| matches!(fate, Fate::Quantised { could_repack: true, .. })),
            cast: count(|fate| fate == Fate::Cast),
            folded_scales: count(|fate| {
                matches!(fate, Fate::Decoded { is_folded: true } | Fate::Quantised { is_folded: true, .. })
            }),
            ..Self::default()
        }
    }
}

/// What a conversion came to.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// What was done with how many tensors.
    pub stats: ConvertStats,
    /// The error of every quantised weight, where it was measured.
    pub errors: Vec<QuantizationError>,
    /// Values that were no numbers and were quantised as numbers.
    pub replaced: u64,
    /// Finite values that are infinite in the output, because F16 ends at 65504.
    pub overflowed: u64,
}

/// How far a quantised weight is from the values it was made of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QuantizationError {
    /// The weight.
    pub name: String,
    /// How many values it has.
    pub values: u64,
    /// The mean of the absolute differences.
    pub mean_absolute: f64,
    /// The mean of the squared differences.
    pub mean_squared: f64,
    /// The ratio of the values' energy to that of the differences, in decibels; infinite where nothing differs.
    pub sqnr: f64,
    /// The cosine between the values and what they became.
    pub cosine: f64,
}

impl ConvertReport {
    /// A report of these counts and errors.
    #[must_use]
    pub const fn new(stats: ConvertStats, errors: Vec<QuantizationError>, replaced: u64) -> Self {
        Self { stats, errors, replaced, overflowed: 0 }
    }

    /// The errors of plans that were run.
    pub(crate) fn of(runs: &[(&Plan, &[Distance])]) -> Self {
        let jobs = runs.iter().flat_map(|(plan, distances)| plan.jobs.iter().zip(*distances));
        let errors = jobs
            .filter(|(_, distance)| distance.values > 0)
            .map(|(job, distance)| QuantizationError::new(job.name(), distance))
            .collect();
        let sum = |count: fn(&Distance) -> u64| runs.iter().flat_map(|(_, distances)| *distances).map(count).sum();
        let (replaced, overflowed) = (sum(|distance| distance.replaced), sum(|distance| distance.overflowed));
        Self { stats: ConvertStats::default(), errors, replaced, overflowed }
    }

    /// The mean of the absolute differences over all quantised values; `None` where nothing was measured.
    #[must_use]
    pub fn mean_absolute_error(&self) -> Option<f64> {
        let values: u64 = self.errors.iter().map(|error| error.values).sum();
        let sum: f64 = self.errors.iter().map(|error| error.mean_absolute * error.values as f64).sum();
        (values > 0).then(|| sum / values as f64)
    }
}

impl QuantizationError {
    /// Nothing differs.
    pub(super) fn none(name: &str, values: u64) -> Self {
        let name = name.to_owned();
        Self { name, values, mean_absolute: 0.0, mean_squared: 0.0, sqnr: f64::INFINITY, cosine: 1.0 }
    }

    pub(super) fn new(name: &str, distance: &Distance) -> Self {
        let count = distance.values as f64;
        let energies = (distance.before * distance.after).sqrt();
        Self {
            name: name.to_owned(),
            values: distance.values,
            mean_absolute: distance.absolute / count,
            mean_squared: distance.squared / count,
            sqnr: if distance.squared == 0.0 {
                f64::INFINITY
            } else {
                10.0 * (distance.before / distance.squared).log10()
            },
            // Zeros that stay zeros point the same way.
            cosine: if energies == 0.0 && distance.squared == 0.0 { 1.0 } else { distance.product / energies },
        }
    }
}
