//! Statistics and reports of conversions.

use std::path::PathBuf;

use crate::pipeline::{Distance, Plan};

/// Number of tensors by operation, planned or done. A weight counts once, with all its companions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertStats {
    /// Weights and other output tensors.
    pub tensors: usize,
    /// Quantised weights that were decoded, including those quantised again.
    pub dequantized: usize,
    /// Weights that were quantised.
    pub quantized: usize,
    /// Those of them with another type than the target's, because of a rule.
    pub by_rules: usize,
    /// Tensors that kept their type.
    pub passthrough: usize,
    /// Quantised weights that kept their codes and scales, in another order.
    pub repacked: usize,
    /// Quantised weights that were decoded although their codes and scales represent the same numbers in both schemes:
    /// the libraries of the two schemes calculate in half precision, and their results would differ in the last bits.
    /// `GroupOptions::same_codes` keeps the codes.
    pub nearly_repacked: usize,
    /// Plain floats that were cast to another type.
    pub cast: usize,
    /// Decoded weights with a global scale in a separate tensor, which was multiplied in.
    pub folded_scales: usize,
    /// Metadata entries of the input that are not in the output.
    pub dropped_metadata: usize,
    /// Weights and other tensors of the input that the selection leaves out.
    pub left_out: usize,
}

/// The operation on a weight or on plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It keeps its type.
    Kept,
    /// Plain floats cast to another type.
    Cast,
    /// Its codes and scales are the same in another order.
    Repacked,
    Decoded {
        is_folded: bool,
    },
    Quantised {
        was_quantised: bool,
        is_folded: bool,
        /// Whether its codes and scales represent the same numbers in the target's scheme.
        could_repack: bool,
    },
}

impl Fate {
    /// Whether it is decoded and quantised again.
    pub(super) const fn is_requantised(self) -> bool {
        matches!(self, Self::Quantised { was_quantised: true, .. })
    }
}

impl ConvertStats {
    /// Counts the operations of a finished plan.
    pub(super) fn of(fates: &[Fate]) -> Self {
        let count = |is: fn(Fate) -> bool| fates.iter().filter(|fate| is(**fate)).count();
        Self {
            tensors: fates.len(),
            dequantized: count(|fate| matches!(fate, Fate::Decoded { .. }) || fate.is_requantised()),
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

/// The result of a conversion.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// Number of tensors by operation.
    pub stats: ConvertStats,
    /// The quantisation error of every quantised weight, if measured.
    pub errors: Vec<QuantizationError>,
    /// NaN and infinite values that were replaced by finite values before quantising.
    pub replaced: u64,
    /// Finite values that overflowed to infinity in the output: the largest F16 value is 65504.
    pub overflowed: u64,
    /// Output files that an earlier run of the same conversion had finished.
    pub kept: Vec<PathBuf>,
}

/// The quantisation error of a weight: its decoded values compared with the original values.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QuantizationError {
    /// Name of the weight.
    pub name: String,
    /// Number of values.
    pub values: u64,
    /// Mean absolute error.
    pub mean_absolute: f64,
    /// Mean squared error.
    pub mean_squared: f64,
    /// Signal-to-quantisation-noise ratio in decibels; infinite if there is no error.
    pub sqnr: f64,
    /// Cosine similarity between the original and the decoded values.
    pub cosine: f64,
}

impl ConvertReport {
    /// A report of these statistics and errors.
    #[must_use]
    pub const fn new(stats: ConvertStats, errors: Vec<QuantizationError>, replaced: u64) -> Self {
        Self { stats, errors, replaced, overflowed: 0, kept: Vec::new() }
    }

    /// The report of plans that were run.
    pub(crate) fn of(runs: &[(&Plan, &[Distance])]) -> Self {
        let jobs = runs.iter().flat_map(|(plan, distances)| plan.jobs.iter().zip(*distances));
        let errors = jobs
            .filter(|(_, distance)| distance.values > 0)
            .map(|(job, distance)| QuantizationError::new(job.name(), distance))
            .collect();
        let sum = |count: fn(&Distance) -> u64| runs.iter().flat_map(|(_, distances)| *distances).map(count).sum();
        let (replaced, overflowed) = (sum(|distance| distance.replaced), sum(|distance| distance.overflowed));
        Self { errors, replaced, overflowed, ..Self::default() }
    }

    /// Mean absolute error over all quantised values; `None` if nothing was measured.
    #[must_use]
    pub fn mean_absolute_error(&self) -> Option<f64> {
        let values: u64 = self.errors.iter().map(|error| error.values).sum();
        let sum: f64 = self.errors.iter().map(|error| error.mean_absolute * error.values as f64).sum();
        (values > 0).then(|| sum / values as f64)
    }
}

impl QuantizationError {
    /// No error.
    pub(super) fn none(name: &str, values: u64) -> Self {
        let name = name.to_owned();
        Self { name, values, mean_absolute: 0.0, mean_squared: 0.0, sqnr: f64::INFINITY, cosine: 1.0 }
    }

    pub(super) fn new(name: &str, distance: &Distance) -> Self {
        let count = distance.values as f64;
        Self {
            name: name.to_owned(),
            values: distance.values,
            mean_absolute: distance.absolute / count,
            mean_squared: distance.squared / count,
            sqnr: distance.sqnr(),
            cosine: distance.cosine(),
        }
    }
}
