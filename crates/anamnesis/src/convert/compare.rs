//! Comparing targets: file size and quantisation error of each, measured without writing anything.
//!
//! Only the weights to be quantised are read. They pass through the same pipeline as in a conversion, tile by tile, so
//! that memory does not depend on the size of the model, and the errors equal those in the conversion's report.

use super::directory::DirectoryPlan;
use super::notes::PlanNote;
use super::options::ConvertOptions;
use super::plan_input::PlanInput;
use super::stats::{ConvertStats, QuantizationError};
use super::target::ConvertTarget;
use super::{DirectoryOptions, Keeping};
use crate::catalog::Dtype;
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{self, Distance, NullSink, Output, Plan, Progress, Work};
use crate::scheme::{BlockOptions, BnbOptions, GroupOptions};

/// The measurement of one target, or the error that prevents a conversion to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The target.
    pub target: ConvertTarget,
    /// The measurement, or the error that a conversion to this target would return.
    pub outcome: Result<Measurement>,
}

/// The size and the quantisation error of a conversion, measured without writing it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Number of tensors by operation.
    pub stats: ConvertStats,
    /// Weights that could be quantised but stay unquantised, each with the reason.
    pub kept: Vec<(String, Keeping)>,
    /// Remarks on the planned output, such as metadata that would be dropped.
    pub notes: Vec<PlanNote>,
    /// Every quantised weight.
    pub weights: Vec<MeasuredWeight>,
    /// The error over all quantised values, under the name of the target; `None` if nothing is quantised.
    pub overall: Option<QuantizationError>,
    /// NaN and infinite values that were replaced by finite values before quantising.
    pub replaced: u64,
}

/// A quantised weight: its size and its quantisation error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeasuredWeight {
    /// Size of its output tensors in bytes.
    pub bytes: u64,
    /// Its quantisation error, under its name in the output.
    pub error: QuantizationError,
}

impl Checkpoint {
    /// Measures the size and the quantisation error of each target, and writes nothing. If the model cannot be
    /// converted to a target, its row contains the error instead. Options of ggml blocks apply to GGUF targets only,
    /// options of group-wise and BitsAndBytes quantisation to the others only.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, ParseLimits};
    /// let checkpoint = Checkpoint::open("Llama-3.2-1B", &ParseLimits::default())?;
    /// let targets = [ConvertTarget::parse("fp8")?, ConvertTarget::parse("q4_k_m")?];
    /// for row in checkpoint.compare(&targets, &ConvertOptions::new(), &DirectoryOptions::new(), |_| {})? {
    ///     if let Ok(measured) = row.outcome {
    ///         println!("{}: {} bytes, {:?}", row.target, measured.bytes, measured.overall);
    ///     }
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Io` if the input cannot be read, `Cancelled` if the run is cancelled.
    pub fn compare(
        &self,
        targets: &[ConvertTarget],
        options: &ConvertOptions,
        cut: &DirectoryOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<Vec<Comparison>> {
        let trials: Vec<_> = targets.iter().map(|&target| (target, self.trial(target, options, cut))).collect();
        let planned = || trials.iter().filter_map(|(_, trial)| trial.as_ref().ok());
        let mut all = Progress {
            total_bytes: planned().map(Trial::encoded_bytes).sum(),
            total_tensors: planned().map(Trial::encoded_tensors).sum(),
            ..Progress::default()
        };
        let mut rows = Vec::with_capacity(trials.len());
        for (target, trial) in trials {
            let before = all;
            let outcome = trial.and_then(|trial| {
                trial.run(options, &mut |now| {
                    all.bytes = before.bytes + now.bytes;
                    all.tensors = before.tensors + now.tensors;
                    all.decoded = before.decoded + now.decoded;
                    watch(&all);
                })
            });
            // These two errors would stop every further target as well.
            if let Err(error @ (AnamnesisError::Cancelled | AnamnesisError::Io(_))) = outcome {
                return Err(error);
            }
            rows.push(Comparison { target, outcome });
        }
        Ok(rows)
    }

    /// Plans a conversion with measurement on.
    pub(super) fn trial(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        cut: &DirectoryOptions,
    ) -> Result<Trial> {
        let mut options = options.clone().with_measure(true);
        match target.format() {
            Format::Gguf => {
                options.quantise.bnb = BnbOptions::default();
                options.quantise.groups = GroupOptions::default();
            }
            _ => options.quantise.blocks = BlockOptions::default(),
        }
        let is_directory = self.directory().is_some() && self.format() != Format::Gguf;
        if is_directory && target.format() == Format::Safetensors {
            let plan = self.plan_convert_directory(target, &options, cut)?;
            return Ok(Trial::of_directory(target, plan));
        }
        let plan = self.plan_convert(target, &options)?;
        let (bytes, stats, kept, notes) =
            (plan.total_bytes(), plan.stats(), plan.kept().to_vec(), plan.notes().to_vec());
        let (input, plans) = plan.into_plans();
        Ok(Trial { target, input, plans, bytes, stats, kept, notes })
    }
}

/// A planned conversion that is measured instead of written.
pub(super) struct Trial {
    target: ConvertTarget,
    input: PlanInput,
    /// One plan per output file.
    plans: Vec<Plan>,
    /// Size of all output files.
    pub(super) bytes: u64,
    stats: ConvertStats,
    kept: Vec<(String, Keeping)>,
    notes: Vec<PlanNote>,
}

impl Trial {
    fn of_directory(target: ConvertTarget, plan: DirectoryPlan) -> Self {
        let (bytes, stats, kept, notes) =
            (plan.total_bytes(), plan.stats(), plan.kept().to_vec(), plan.notes().to_vec());
        let (input, plans) = plan.into_plans();
        Self { target, input, plans, bytes, stats, kept, notes }
    }

    fn encoded_bytes(&self) -> u64 {
        let jobs = self.plans.iter().flat_map(|plan| &plan.jobs);
        jobs.filter(|job| matches!(job.work, Work::Encode { .. })).map(|job| job.bytes()).sum()
    }

    fn encoded_tensors(&self) -> usize {
        let jobs = self.plans.iter().flat_map(|plan| &plan.jobs);
        jobs.filter(|job| matches!(job.work, Work::Encode { .. })).map(|job| job.outputs.len()).sum()
    }

    /// Encodes and measures the weights. Blocks that are copied because they already have the target
    /// type have no error.
    pub(super) fn run(self, options: &ConvertOptions, watch: &mut dyn FnMut(&Progress)) -> Result<Measurement> {
        let Self { target, input, plans, bytes, stats, kept, notes } = self;
        let mut weights = Vec::new();
        for job in plans.iter().flat_map(|plan| &plan.jobs) {
            if let (Work::Copy { .. }, [placed]) = (&job.work, &job.outputs[..])
                && let Dtype::Block(block) = placed.output.dtype
            {
                let values = job.bytes() / block.block_bytes().max(1) * block.block_elements();
                weights.push(MeasuredWeight { bytes: job.bytes(), error: QuantizationError::none(job.name(), values) });
            }
        }
        let plans: Vec<_> = plans.into_iter().map(Plan::into_encoded).collect();
        let begin = || -> Result<Box<dyn pipeline::TileSink>> { Ok(Box::new(NullSink)) };
        let mut outputs = Vec::with_capacity(plans.len());
        for plan in &plans {
            outputs.push(Output { plan, begin: Box::new(begin) });
        }
        let distances = pipeline::run_all(&outputs, &input.sources, &options.run, watch)?;
        let mut overall = Distance::default();
        for (plan, distances) in plans.iter().zip(&distances) {
            for (job, distance) in plan.jobs.iter().zip(distances).filter(|(_, distance)| distance.values > 0) {
                overall.add(distance);
                weights
                    .push(MeasuredWeight { bytes: job.bytes(), error: QuantizationError::new(job.name(), distance) });
            }
        }
        let replaced = overall.replaced;
        let overall = (overall.values > 0).then(|| QuantizationError::new(target.name(), &overall));
        Ok(Measurement { bytes, stats, kept, notes, weights, overall, replaced })
    }
}
