//! A planned conversion: what it will write, and the writing of it.

use std::path::Path;

use super::RememberOptions;
use crate::catalog::{Dtype, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::safetensors::Safetensors;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::io::output::{PendingFile, same_file};
use crate::limits::{Budget, ParseLimits};
use crate::pipeline::{self, FileSink, MemorySink, Plan, PlannedTensor, Progress, Work, plan_tensors};

impl Checkpoint {
    /// Plans the decoding of all quantised weights to `target`; everything else is kept as it is. Nothing is read or
    /// written yet, and whatever cannot be decoded is refused here.
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the first tensor that cannot be decoded.
    pub fn plan(&self, target: TargetDtype) -> Result<RememberPlan<'_>> {
        let planned = plan_tensors(&self.catalog, &self.sources, self.claim(), target)?;
        let plan = Plan::new(planned, target, &Safetensors, self.catalog.metadata.as_ref())?;
        Ok(RememberPlan { checkpoint: self, plan })
    }
}

/// A conversion that is known to the byte and has not begun.
pub struct RememberPlan<'a> {
    checkpoint: &'a Checkpoint,
    plan: Plan,
}

/// One tensor that a conversion will write.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlannedOutput {
    /// Its name in the output.
    pub name: String,
    /// Its type in the output.
    pub dtype: Dtype,
    /// Its shape in the output.
    pub shape: Vec<usize>,
    /// Its size in the output.
    pub bytes: u64,
    /// Its first byte in the output.
    pub offset: u64,
    /// The scheme it is decoded from, in detail; `None` where it is copied.
    pub scheme: Option<String>,
    /// The stored tensors it is made of.
    pub sources: Vec<String>,
}

impl RememberPlan<'_> {
    /// Bytes of the output file.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.plan.total_bytes
    }

    /// Tensors of the output that are decoded; the others are copied.
    #[must_use]
    pub fn decoded(&self) -> usize {
        self.plan.decoded()
    }

    /// Every tensor of the output, in the order of its bytes.
    pub fn tensors(&self) -> impl Iterator<Item = PlannedOutput> {
        self.plan.tensors.iter().map(|tensor| describe(self.checkpoint, tensor))
    }

    /// Writes the output file, which appears complete or not at all. `watch` is called on this thread as bytes are done.
    ///
    /// # Errors
    /// `Io` where a file cannot be read or written or the output is one of the inputs, `Cancelled` where the caller asked
    /// for it. The output is then as it was before.
    pub fn write(
        &self,
        output: impl AsRef<Path>,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<()> {
        write_file(&self.plan, &self.checkpoint.sources, output.as_ref(), options, &mut watch)
    }

    /// The bytes of the output file, in memory.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `LimitExceeded` where the output is larger than the limits given at opening.
    pub fn to_bytes(&self, options: &RememberOptions) -> Result<Vec<u8>> {
        to_bytes(&self.plan, &self.checkpoint.sources, &self.checkpoint.limits, options)
    }
}

/// Runs a plan into a file, which must not be one of the inputs.
pub(super) fn write_file(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    output: &Path,
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<()> {
    if sources.iter().filter_map(|source| source.path()).any(|input| same_file(input, output)) {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the output is the input itself");
        return Err(AnamnesisError::at_path(error, output));
    }
    let sink = FileSink::new(PendingFile::create(output, options.existing, plan.total_bytes)?);
    pipeline::run(plan, sources, &sink, &options.run_options(), watch)?;
    sink.finish()
}

/// Runs a plan into memory, within limits.
pub(super) fn to_bytes(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    limits: &ParseLimits,
    options: &RememberOptions,
) -> Result<Vec<u8>> {
    Budget::new(limits).buffer(plan.total_bytes, "the output")?;
    let bytes = usize::try_from(plan.total_bytes)
        .map_err(|_| AnamnesisError::limit("available_memory", format!("{} bytes", plan.total_bytes)))?;
    let sink = MemorySink::new(bytes)?;
    pipeline::run(plan, sources, &sink, &options.run_options(), &mut |_| {})?;
    Ok(sink.finish())
}

/// A planned tensor for people.
pub(super) fn describe(checkpoint: &Checkpoint, tensor: &PlannedTensor) -> PlannedOutput {
    let (scheme, sources) = match &tensor.work {
        Work::Copy(_) => (None, vec![tensor.output.name.clone()]),
        Work::Decode { decoder, sources, .. } => {
            let name = |&id| checkpoint.catalog.get(id).name.clone();
            (Some(decoder.describe()), sources.iter().map(name).collect())
        }
    };
    let output = tensor.output.clone();
    PlannedOutput {
        name: output.name,
        dtype: output.dtype,
        shape: output.shape,
        bytes: output.bytes,
        offset: tensor.offset,
        scheme,
        sources,
    }
}
