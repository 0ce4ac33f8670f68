//! What several targets would come to: the size and the error of each, measured as if it were written, with nothing written.
//!
//! Only the weights that are quantised are read. They go the way they go when they are written, tile by tile, so that memory
//! does not depend on the size of the model, and the errors are those that a report of the conversion has.

use super::directory::DirectoryPlan;
use super::notes::PlanNote;
use super::options::ConvertOptions;
use super::plan::PlanInput;
use super::stats::{ConvertStats, QuantizationError};
use super::target::ConvertTarget;
use super::{DirectoryOptions, Keeping};
use crate::catalog::Dtype;
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{self, Distance, NullSink, Output, Plan, Progress, Work};
use crate::scheme::{BlockOptions, BnbOptions, GroupOptions};

/// What one target comes to, or why the model cannot become it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The target.
    pub target: ConvertTarget,
    /// What it comes to; the error that a conversion would end with where it cannot be.
    pub outcome: Result<Measurement>,
}

/// The size and the error of a conversion that was not written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// Bytes of the weight files.
    pub bytes: u64,
    /// What is done with how many tensors.
    pub stats: ConvertStats,
    /// The weights that could be quantised and are not, and why.
    pub kept: Vec<(String, Keeping)>,
    /// What the output would not have of the input, for people.
    pub notes: Vec<PlanNote>,
    /// Every quantised weight.
    pub weights: Vec<MeasuredWeight>,
    /// The error over all quantised values, under the name of the target; `None` where nothing is quantised.
    pub overall: Option<QuantizationError>,
    /// Values that were no numbers and were quantised as numbers.
    pub replaced: u64,
}

/// A quantised weight: its size, and how far it is from what it was.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeasuredWeight {
    /// Bytes of its tensors.
    pub bytes: u64,
    /// Its error, under its name in the output.
    pub error: QuantizationError,
}

impl Checkpoint {
    /// Measures what each of these targets would come to, and writes nothing. A target that the model cannot become has its
    /// error in place of numbers. Options of GGUF's blocks are for targets of GGUF, those of other weights for the others.
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
    /// `Io` where the input cannot be read, `Cancelled` where the caller asked for it.
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
            // Whatever the target, nothing more can be measured.
            if let Err(error @ (AnamnesisError::Cancelled | AnamnesisError::Io(_))) = outcome {
                return Err(error);
            }
            rows.push(Comparison { target, outcome });
        }
        Ok(rows)
    }

    /// Plans a conversion as it would be written.
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

/// A conversion that is planned, and will not be written.
pub(super) struct Trial {
    target: ConvertTarget,
    input: PlanInput,
    /// The files.
    plans: Vec<Plan>,
    /// Bytes of all of them.
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

    /// Measures it. Blocks that are copied because they are what was asked for lose nothing.
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
