//! Statistics of decoded values: extremes, moments, counts of zeros, NaN, infinities and outliers, and a histogram.
//!
//! All values are decoded to F32, tile by tile, and nothing is written; tensors of F64 are measured as they are. Sums are `f64`, in an order that depends on the
//! shape of the tensor alone (`docs/looking.md` has it as a NumPy program):
//!
//! 1. A tensor is cut into blocks of 4096 values.
//! 2. In a block, eight lanes are summed: lane `i` has the values at `i`, `i + 8`, `i + 16` and so on, in order. Then
//!    the second half of the lanes is added to the first half, until one is left. NaN and infinities count as zero.
//! 3. The squared distances from the mean of the block are summed in the same way.
//! 4. Blocks are merged in pairs, then pairs of pairs, until one is left; a block without a partner moves up. Squares
//!    are merged with the distance between the two means.
//!
//! Outliers are counted exactly, which needs the mean and the deviation first: the tails of every tensor are kept until
//! then, and where they do not reach far enough, the tensor is decoded a second time.

use super::blocks::MeasuringSink;
use super::histogram::Histogram;
use super::moments::{CountOutliers, MeasureMoments, Moments};
use super::tensors::{DecodedInput, InputContent, measured};
use super::wide::WideTensor;
use crate::catalog::{Dtype, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::{self, Plan, Planned, Progress, RememberOptions};

/// The distance of an outlier from the mean, in standard deviations.
const OUTLIER_DEVIATIONS: f64 = 6.0;

/// The statistics of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelStats {
    /// Every tensor of floats, in order of name.
    pub tensors: Vec<TensorStats>,
    /// The stored scales, offsets and lookup tables that contain NaN or infinities, in order of name. Scales inside ggml
    /// blocks and powers of two of type `U8` are not listed by name; their NaN and infinities appear in the decoded
    /// values.
    pub bad_scales: Vec<BadScales>,
    /// The names of tensors that are not floats, which are not measured.
    pub not_floats: Vec<String>,
}

/// A stored companion with NaN or infinities.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadScales {
    /// Its name.
    pub name: String,
    /// The weight it belongs to; `None` if it belongs to no decoded weight.
    pub weight: Option<String>,
    /// The number of NaNs.
    pub nan: u64,
    /// The number of infinities.
    pub infinite: u64,
}

/// The statistics of one tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorStats {
    /// Its name after decoding.
    pub name: String,
    /// Its shape after decoding.
    pub shape: Vec<usize>,
    /// Number of values.
    pub values: u64,
    /// Number of zeros of either sign.
    pub zeros: u64,
    /// Number of NaNs.
    pub nan: u64,
    /// Number of infinities of either sign.
    pub infinite: u64,
    /// Number of finite values that are more than six standard deviations away from the mean.
    pub outliers: u64,
    /// Extremes and moments of the finite values; `None` if there are none.
    pub finite: Option<FiniteStats>,
    /// The distribution of the finite values.
    pub histogram: Histogram,
}

/// Extremes and moments of the finite values of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FiniteStats {
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation, with the number of values as divisor.
    pub deviation: f64,
}

impl TensorStats {
    fn new(input: DecodedInput<'_>, values: u64, moments: &Moments) -> Self {
        let finite = moments.range.map(|(min, max)| FiniteStats {
            min,
            max,
            mean: moments.mean(),
            deviation: moments.deviation(),
        });
        let &Moments { zeros, nan, infinite, .. } = moments;
        let (name, shape, histogram) = (input.name.to_owned(), input.shape, moments.histogram.clone());
        Self { name, shape, values, zeros, nan, infinite, outliers: 0, finite, histogram }
    }

    /// The mean and the largest distance from it that is not an outlier, if there are outliers.
    fn outlier_limit(&self) -> Option<(f64, f64)> {
        let FiniteStats { min, max, mean, deviation } = self.finite?;
        let limit = OUTLIER_DEVIATIONS * deviation;
        let is_outlier = |value: f64| (value - mean).abs() > limit;
        (is_outlier(min) || is_outlier(max)).then_some((mean, limit))
    }
}

impl Checkpoint {
    /// Measures the values of every tensor, decoded to F32 (F64 is measured as it is). Nothing is written, memory does not depend on the size of the
    /// model, and results do not depend on the number of threads.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits, RememberOptions};
    /// let checkpoint = Checkpoint::open("Llama-3.1-8B-FP8", &ParseLimits::default())?;
    /// for tensor in checkpoint.stats(&RememberOptions::new(), |_| {})?.tensors {
    ///     println!("{}: {:?}, {} NaN", tensor.name, tensor.finite, tensor.nan);
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan) if the checkpoint cannot be decoded, `Io` if the input cannot be read, `Cancelled` if the run is cancelled.
    pub fn stats(&self, options: &RememberOptions, mut watch: impl FnMut(&Progress)) -> Result<ModelStats> {
        let mut stats = ModelStats::default();
        let mut jobs = Vec::new();
        for input in self.decoded_inputs(TargetDtype::F32)? {
            match &input.content {
                InputContent::Stored(_) => stats.not_floats.push(input.name.to_owned()),
                &InputContent::Values(_, Some(tensor)) if tensor.dtype == Dtype::F64 => {
                    let (wide, cancel) = (WideTensor { checkpoint: self, tensor }, options.cancel_token());
                    let moments = wide.moments(&cancel).map_err(|error| error.in_tensor(input.name))?;
                    let mut tensor = TensorStats::new(input, tensor.elements(), &moments);
                    if let Some(limit) = tensor.outlier_limit() {
                        tensor.outliers = wide.outliers(limit, &cancel)?;
                    }
                    stats.tensors.push(tensor);
                }
                InputContent::Values(values, _) => {
                    let job = planned(input.name, values);
                    jobs.push((job, Subject::Tensor(input)));
                }
            }
        }
        let weight_of = self.weights_of_parts();
        for (id, tensor, values) in self.stored_scales() {
            jobs.push((planned(&tensor.name, &values), Subject::Scales(&tensor.name, weight_of.get(&id).copied())));
        }
        jobs.sort_by_key(|(job, _)| job.source());
        let (planned, subjects): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let plan = Plan::without_file(planned);
        let mut all = Progress::default();
        let sink = MeasuringSink::new(MeasureMoments, &plan, options.cpu_level().level());
        pipeline::run(&plan, &self.sources, &sink, options, &mut |now| {
            all = *now;
            watch(now);
        })?;
        let mut again = Vec::new();
        for ((job, subject), moments) in plan.jobs.into_iter().zip(subjects).zip(sink.finish().1) {
            match subject {
                Subject::Tensor(input) => {
                    let elements = job.work.values().map_or(0, |values| values.elements);
                    let mut tensor = TensorStats::new(input, elements, &moments);
                    if let (Some(limit), Some(values)) = (tensor.outlier_limit(), job.work.values()) {
                        match moments.tails.outliers(limit.0, limit.1) {
                            Some(outliers) => tensor.outliers = outliers,
                            None => {
                                let suspect = Suspect { tensor: stats.tensors.len(), limit };
                                again.push((self::planned(&tensor.name, values), suspect));
                            }
                        }
                    }
                    stats.tensors.push(tensor);
                }
                Subject::Scales(name, weight) if moments.nan + moments.infinite > 0 => {
                    stats.bad_scales.push(BadScales {
                        name: name.to_owned(),
                        weight: weight.map(str::to_owned),
                        nan: moments.nan,
                        infinite: moments.infinite,
                    })
                }
                Subject::Scales(..) => {}
            }
        }
        self.count_outliers(&mut stats, again, options, &mut |now| {
            let (bytes, total_bytes) = (all.bytes + now.bytes, all.total_bytes + now.total_bytes);
            watch(&Progress { bytes, total_bytes, ..all });
        })?;
        stats.tensors.sort_by(|a, b| a.name.cmp(&b.name));
        stats.bad_scales.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(stats)
    }

    /// Counts the outliers of tensors that have some.
    fn count_outliers(
        &self,
        stats: &mut ModelStats,
        again: Vec<(Planned, Suspect)>,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        if again.is_empty() {
            return Ok(());
        }
        let (planned, suspects): (Vec<_>, Vec<_>) = again.into_iter().unzip();
        let plan = Plan::without_file(planned);
        let limits = suspects.iter().map(|suspect| suspect.limit).collect();
        let sink = MeasuringSink::new(CountOutliers { limits }, &plan, options.cpu_level().level());
        pipeline::run(&plan, &self.sources, &sink, options, watch)?;
        for (suspect, outliers) in suspects.into_iter().zip(sink.finish().1) {
            if let Some(tensor) = stats.tensors.get_mut(suspect.tensor) {
                tensor.outliers = outliers;
            }
        }
        Ok(())
    }
}

/// A tensor with outliers that are not counted yet.
struct Suspect {
    /// Its index in the statistics.
    tensor: usize,
    /// Its mean, and the largest distance from it that is not an outlier.
    limit: (f64, f64),
}

/// The subject of a job.
enum Subject<'a> {
    Tensor(DecodedInput<'a>),
    /// A companion, with the name of its weight.
    Scales(&'a str, Option<&'a str>),
}

fn planned(name: &str, values: &crate::pipeline::Values) -> Planned {
    measured(name, values.clone(), values.elements.saturating_mul(values.each()))
}
