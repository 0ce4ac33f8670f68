//! Decoding as a conversion that changes nothing else.

use std::path::Path;

use super::{ConvertOptions, ConvertPlan, ConvertTarget, PlannedOutput};
use crate::catalog::{Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::{Progress, RememberOptions};

impl Checkpoint {
    /// Plans the decoding of all quantised weights to `target`; everything else is kept as it is. Nothing is read or
    /// written yet, and whatever cannot be decoded is refused here.
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the first tensor that cannot be decoded.
    pub fn plan(&self, target: TargetDtype) -> Result<RememberPlan> {
        self.plan_selected(target, &Selection::new())
    }

    /// [`plan`](Self::plan) for some of the tensors, or under other names.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), and `Parse` where a pattern fits no tensor or two tensors would get one name.
    pub fn plan_selected(&self, target: TargetDtype, selection: &Selection) -> Result<RememberPlan> {
        let options = ConvertOptions::new().with_output_dtype(target.dtype()).with_selection(selection.clone());
        self.plan_convert(ConvertTarget::Safetensors, &options).map(RememberPlan)
    }
}

/// A conversion that is known to the byte and has not begun.
pub struct RememberPlan(ConvertPlan);

impl RememberPlan {
    /// Bytes of the output file.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.0.total_bytes()
    }

    /// Tensors of the output that are decoded; the others are copied.
    #[must_use]
    pub fn decoded(&self) -> usize {
        self.0.stats().dequantized
    }

    /// Every tensor of the output, in the order of its bytes.
    pub fn tensors(&self) -> impl Iterator<Item = PlannedOutput> {
        self.0.tensors()
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
        self.0.write_as(output.as_ref(), options, &mut watch).map(drop)
    }

    /// The bytes of the output file, in memory.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `LimitExceeded` where the output is larger than the limits given at opening.
    pub fn to_bytes(&self, options: &RememberOptions) -> Result<Vec<u8>> {
        self.0.bytes_as(options, &mut |_| {}).map(|(bytes, _)| bytes)
    }
}
