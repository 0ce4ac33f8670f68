//! A whole checkpoint: a directory in, a directory out that loads without a further edit.
//!
//! | output | how it comes about |
//! |---|---|
//! | `model-00001-of-000NN.safetensors`, or `model.safetensors` | tensors in the order of the input, a new file where the next would pass the shard size |
//! | `model.safetensors.index.json` | written anew where there is more than one shard |
//! | `config.json` and its kin | the same text without the quantisation, its dtype set |
//! | tokenizer and other files | copied |
//! | weights in other formats, quantisation-only files, hidden files | left out, and said so |
//! | `.anamnesis.json` | the manifest: what this directory is made of, so that the same command resumes |
//!
//! Every file appears complete or not at all. The plan depends on inputs and options alone, so parts of it can be written
//! by different machines.

mod manifest;
mod options;
mod shards;
mod sidecars;
mod write;

use std::path::Path;

use super::PlannedOutput;
use super::plan::describe;
use crate::catalog::TargetDtype;
use crate::checkpoint::Checkpoint;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{Plan, plan_tensors};

pub(crate) use manifest::unfinished_outputs;
pub use options::{DirectoryOptions, Part};
pub use sidecars::{Sidecar, SidecarFate};
pub use write::DirectoryReport;

impl Checkpoint {
    /// Plans the conversion of a checkpoint directory. Nothing is written yet, and whatever cannot be decoded is refused.
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the first tensor that cannot be decoded; `Parse` where this checkpoint is not a
    /// directory; `Io` where the files beside the weights cannot be read.
    pub fn plan_directory(&self, target: TargetDtype, options: &DirectoryOptions) -> Result<DirectoryPlan<'_>> {
        let directory = self.directory().ok_or_else(|| {
            AnamnesisError::parse(
                "a single file was opened; a directory can be planned for a checkpoint directory only",
            )
        })?;
        let planned = plan_tensors(&self.catalog, &self.sources, self.claim(), target)?;
        let shards = shards::lay_out(planned, target, options, self.catalog.metadata.as_ref())?;
        let index = shards::index_text(&shards);
        let sidecars = sidecars::classify(directory, target)?;
        Ok(DirectoryPlan { checkpoint: self, directory, target, options: options.clone(), shards, index, sidecars })
    }
}

/// One file of weights.
pub(super) struct Shard {
    pub name: String,
    pub plan: Plan,
}

/// A conversion of a checkpoint directory that is known to the byte and has not begun.
pub struct DirectoryPlan<'a> {
    checkpoint: &'a Checkpoint,
    directory: &'a Path,
    target: TargetDtype,
    options: DirectoryOptions,
    shards: Vec<Shard>,
    index: Option<Vec<u8>>,
    sidecars: Vec<Sidecar>,
}

impl DirectoryPlan<'_> {
    /// The weight files with their sizes, in order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.shards.iter().map(|shard| (shard.name.as_str(), shard.plan.total_bytes))
    }

    /// Bytes of all weight files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.plan.total_bytes).sum()
    }

    /// Tensors of the output that are decoded; the others are copied.
    #[must_use]
    pub fn decoded(&self) -> usize {
        self.shards.iter().map(|shard| shard.plan.decoded()).sum()
    }

    /// Every tensor of the output with the file it goes to, in order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, PlannedOutput)> {
        self.shards.iter().flat_map(|shard| {
            let describe = |tensor| (shard.name.as_str(), describe(self.checkpoint, tensor));
            shard.plan.tensors.iter().map(describe)
        })
    }

    /// The files beside the weights, and what happens to each.
    #[must_use]
    pub fn sidecars(&self) -> &[Sidecar] {
        &self.sidecars
    }
}
