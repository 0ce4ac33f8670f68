//! Decoding: a conversion that decodes quantised weights and changes nothing else.

use std::path::Path;

use super::{ConvertOptions, ConvertPlan, ConvertTarget, PlannedOutput};
use crate::catalog::{Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::{Progress, RememberOptions};

impl Checkpoint {
    /// Plans the decoding of all quantised weights to `target`; everything else is kept. Nothing is read or written
    /// yet; weights that cannot be decoded are refused here.
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the first tensor that cannot be decoded.
    pub fn plan(&self, target: TargetDtype) -> Result<RememberPlan> {
        self.plan_selected(target, &Selection::new())
    }

    /// [`plan`](Self::plan) for a selection of tensors, possibly renamed.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), and `Parse` if a pattern matches no tensor or two tensors would get the same name.
    pub fn plan_selected(&self, target: TargetDtype, selection: &Selection) -> Result<RememberPlan> {
        let options = ConvertOptions::new().with_output_dtype(target.dtype()).with_selection(selection.clone());
        self.plan_convert(ConvertTarget::Safetensors, &options).map(RememberPlan)
    }
}

/// A planned decoding: all sizes are known, nothing is written yet.
pub struct RememberPlan(ConvertPlan);

impl RememberPlan {
    /// Bytes of the output file.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.0.total_bytes()
    }

    /// Number of output tensors that are decoded; the others are copied.
    #[must_use]
    pub fn decoded(&self) -> usize {
        self.0.stats().dequantized
    }

    /// Every output tensor, in order of offset.
    pub fn tensors(&self) -> impl Iterator<Item = PlannedOutput> {
        self.0.tensors()
    }

    /// Writes the output file, which appears complete or not at all. `watch` is called on the calling thread as
    /// bytes are written.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written or the output is one of the inputs, `Cancelled` if the run is
    /// cancelled. The output path is then as it was before.
    pub fn write(
        &self,
        output: impl AsRef<Path>,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<()> {
        self.0.write_as(output.as_ref(), options, &mut watch).map(drop)
    }

    /// The output file in memory.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `LimitExceeded` if the output exceeds the limits that the checkpoint
    /// was opened with.
    pub fn to_bytes(&self, options: &RememberOptions) -> Result<Vec<u8>> {
        self.0.bytes_as(options, &mut |_| {}).map(|(bytes, _)| bytes)
    }
}
