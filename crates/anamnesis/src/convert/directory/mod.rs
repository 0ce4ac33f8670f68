//! Conversion of a checkpoint directory into another directory that loads without further edits.
//!
//! | output | source |
//! |---|---|
//! | `model-00001-of-000NN.safetensors`, or `model.safetensors`, or another base name that loaders look for and the input uses | tensors in the order of the input; a new file begins where the next tensor would exceed the shard size |
//! | `model.safetensors.index.json` | generated if there is more than one shard |
//! | `config.json`, `params.json` | the input's text with its quantisation removed or replaced and its dtype updated |
//! | tokenizer and other files | copied |
//! | weights in other formats, quantisation-only files, hidden files | left out, and listed in the report |
//! | `.anamnesis.json` | the manifest, which allows the same command to resume; removed when the directory is finished |
//! | `.anamnesis.new/` | new files that replace an existing output, until all of them are complete |
//!
//! Every file appears complete or not at all. The plan depends on inputs and options alone, so that several machines
//! can each write one part of it.

mod config_text;
mod options;
mod present;
mod replace;
mod shards;
mod sidecars;
mod write;

use std::path::PathBuf;

use super::finished::Outputs;
use super::mapped::RestoredOutputs;
use super::outline::Outline;
use super::plan::describe;
use super::plan_input::PlanInput;
use super::resumable::NamedPlan;
use super::{ConvertOptions, ConvertStats, ConvertTarget, Keeping, PlanNote, PlannedOutput};
use crate::catalog::{Metadata, MetadataValue, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{AnamnesisError, Request, Result};
use crate::pipeline::Plan;
use crate::scheme::Encoding;

pub use options::{DirectoryOptions, Part};
pub(super) use present::has_same_content;
pub(super) use sidecars::{ConfigChange, classify};
pub use sidecars::{Sidecar, SidecarFate};
pub(super) use write::copy;
pub use write::{DirectoryReport, OutputState};

/// Refuses a weight dtype that the loaders of the target do not run.
fn check_loader_dtype(encoding: &Encoding, dtype: TargetDtype) -> Result<()> {
    match encoding.quantiser.required_dtype().filter(|only| *only != dtype) {
        None => Ok(()),
        Some(only) => {
            let (found, only) = (dtype.dtype(), only.dtype());
            let what = format!("{} for a model of {found} weights", encoding.name());
            let why =
                format!("its loader always decodes to {only}, which a model of {found} weights does not run with");
            Err(Request::Contradiction { what, why }.into())
        }
    }
}

impl Checkpoint {
    /// Plans the decoding of a checkpoint directory. Nothing is written yet; tensors that cannot be
    /// decoded are refused.
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the first tensor that cannot be decoded; `Parse` if this checkpoint is not a
    /// directory; `Io` if its sidecars cannot be read.
    pub fn plan_directory(&self, target: TargetDtype, options: &DirectoryOptions) -> Result<DirectoryPlan> {
        let convert = ConvertOptions::new().with_output_dtype(target.dtype());
        self.plan_convert_directory(ConvertTarget::Safetensors, &convert, options)
    }

    /// Plans the conversion of a checkpoint directory to a target of the safetensors family.
    ///
    /// # Errors
    /// As [`plan_directory`](Self::plan_directory), and `Request` if the target writes one file only.
    pub fn plan_convert_directory(
        &self,
        target: ConvertTarget,
        convert: &ConvertOptions,
        options: &DirectoryOptions,
    ) -> Result<DirectoryPlan> {
        if target.format() != Format::Safetensors {
            let why = "it is written as one file, not as a directory".to_owned();
            return Err(Request::Contradiction { what: format!("the target {target}"), why }.into());
        }
        if target == ConvertTarget::Hf {
            return self.plan_restored(convert, options);
        }
        let directory = self.directory().ok_or_else(|| {
            AnamnesisError::parse(
                "a single file was opened; a directory can be planned for a checkpoint directory only",
            )
        })?;
        let outline = self.outline(target, convert)?;
        let config = ConfigChange::of(convert, &outline)?;
        let Outline { planned, metadata, documents, stats, kept, mut notes, encoded_dtype, .. } = outline;
        if let (Some(encoding), Some(dtype)) = (target.encoding(), encoded_dtype) {
            if self.model_class().is_known() {
                check_loader_dtype(encoding, dtype)?;
            }
            let names = planned.iter().flat_map(|planned| &planned.outputs).map(|output| output.name.as_str());
            let loaded_by = match self.model_class().has_experts(names) {
                true => encoding.quantiser.loaded_with_experts_by(),
                false => encoding.quantiser.loaded_by(),
            };
            notes.push(format!("loaded by {loaded_by}").into());
        }
        let base = self.input_files().next().map_or(shards::BASE, |(name, _)| shards::base_of(name));
        let shards = shards::lay_out(planned, options, metadata.as_ref(), base)?;
        let index = shards::index_text(&shards)?;
        let weights = self.input_files().map(|(name, _)| name).chain(self.index_name());
        let weights: Vec<_> = weights.chain(self.more_file_names()).collect();
        let mut sidecars = sidecars::classify(directory, &weights, &config)?;
        // The input's own versions of these files describe its own quantisation.
        sidecars.retain(|sidecar| !documents.iter().any(|(name, _)| sidecar.name == *name));
        let mut generated = Vec::with_capacity(documents.len());
        for (name, document) in documents {
            sidecars.push(Sidecar { name: name.to_owned(), fate: SidecarFate::Generated });
            generated.push((name.to_owned(), format!("{document:#}\n").into_bytes()));
        }
        if !config.quantisation.is_empty() && !sidecars.iter().any(|sidecar| sidecar.name == "config.json") {
            notes.push(PlanNote::NoConfiguration);
        }
        let (options, dtype) = (options.clone(), convert.target_dtype()?);
        let read = self.input_files().map(|(name, path)| (name.to_owned(), path.to_path_buf()));
        let files = read.chain(self.config_files()?).collect();
        Ok(DirectoryPlan {
            input: PlanInput::of(self),
            directory: Some(directory.to_path_buf()),
            generated,
            files,
            target,
            dtype,
            config,
            options,
            base,
            shards,
            index,
            sidecars,
            stats,
            kept,
            notes,
        })
    }

    /// Plans the Hugging Face checkpoint of a GGUF file.
    fn plan_restored(&self, convert: &ConvertOptions, options: &DirectoryOptions) -> Result<DirectoryPlan> {
        let RestoredOutputs { outputs, files: generated, dtype, notes } = self.restored(convert)?;
        let Outputs { planned, stats, .. } = outputs;
        let metadata = Metadata::from([("format".to_owned(), MetadataValue::String("pt".to_owned()))]);
        let shards = shards::lay_out(planned, options, Some(&metadata), shards::BASE)?;
        let sidecar = |(name, _): &(String, Vec<u8>)| Sidecar { name: name.clone(), fate: SidecarFate::Generated };
        let notes = self.claimed().notes.iter().cloned().chain(notes).map(PlanNote::Other).collect();
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(DirectoryPlan {
            input: PlanInput::of(self),
            directory: None,
            sidecars: generated.iter().map(sidecar).collect(),
            generated,
            files: self.paths.iter().map(|path| (name(path), path.clone())).collect(),
            target: ConvertTarget::Hf,
            dtype: Some(dtype),
            config: ConfigChange::none(),
            options: options.clone(),
            base: shards::BASE,
            index: shards::index_text(&shards)?,
            shards,
            stats,
            kept: Vec::new(),
            notes,
        })
    }
}

/// One weight file.
pub(super) struct Shard {
    pub name: String,
    pub plan: Plan,
}

impl Shard {
    fn named_plan(&self) -> NamedPlan<'_> {
        (&self.name, &self.plan)
    }
}

/// A planned conversion to a directory: all sizes are known, nothing is written yet.
pub struct DirectoryPlan {
    input: PlanInput,
    /// The input directory; `None` if the input is a GGUF file.
    directory: Option<PathBuf>,
    /// Sidecars that are generated.
    generated: Vec<(String, Vec<u8>)>,
    /// The input files, with their names in the directory.
    files: Vec<(String, PathBuf)>,
    target: ConvertTarget,
    /// The dtype that weights are decoded to, if the options set one.
    dtype: Option<TargetDtype>,
    config: ConfigChange,
    options: DirectoryOptions,
    /// The base name of the weight files.
    base: &'static str,
    shards: Vec<Shard>,
    index: Option<Vec<u8>>,
    sidecars: Vec<Sidecar>,
    stats: ConvertStats,
    kept: Vec<(String, Keeping)>,
    notes: Vec<PlanNote>,
}

impl DirectoryPlan {
    /// The weight files with their sizes, in order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.shards.iter().map(|shard| (shard.name.as_str(), shard.plan.total_bytes))
    }

    /// The plans of the weight files, and the input they read.
    pub(super) fn into_plans(self) -> (PlanInput, Vec<Plan>) {
        (self.input, self.shards.into_iter().map(|shard| shard.plan).collect())
    }

    /// Bytes of all weight files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.plan.total_bytes).sum()
    }

    /// Number of output tensors that are decoded; the others are copied.
    #[must_use]
    pub fn decoded(&self) -> usize {
        self.shards.iter().map(|shard| shard.plan.decoded()).sum()
    }

    /// Every tensor of the output with the file it goes to, in order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, PlannedOutput)> {
        self.shards.iter().enumerate().flat_map(move |(file, shard)| {
            let describe = move |(job, placed)| (shard.name.as_str(), describe(&self.input, file, job, placed));
            shard.plan.tensors().map(describe)
        })
    }

    /// The dtype that weights are decoded to, if the options set one or the plan implies one.
    #[must_use]
    pub const fn dtype(&self) -> Option<TargetDtype> {
        self.dtype
    }

    /// Number of tensors by operation.
    #[must_use]
    pub const fn stats(&self) -> ConvertStats {
        self.stats
    }

    /// Weights that could be quantised but stay unquantised, each with the reason.
    #[must_use]
    pub fn kept(&self) -> &[(String, Keeping)] {
        &self.kept
    }

    /// Remarks on the planned output, such as metadata that is dropped.
    #[must_use]
    pub fn notes(&self) -> &[PlanNote] {
        &self.notes
    }

    /// The sidecars of the input and of the output, with the operation on each.
    #[must_use]
    pub fn sidecars(&self) -> &[Sidecar] {
        &self.sidecars
    }
}
