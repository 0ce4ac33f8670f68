//! The plan: every output tensor with name, type, size and offset, before any value is known.

use std::ops::Range;
use std::sync::Arc;

use super::shared::SharedScale;
use super::values::{Origin, Values};
use crate::catalog::{Extent, Metadata, TargetDtype, TensorId};
use crate::container::{ByteOrder, Container, DeferredHeaders, Layout, OutputTensor};
use crate::error::Result;
use crate::scheme::TileEncoder;

/// The plan of an output file.
pub(crate) struct Plan {
    /// Sorted by their first output byte.
    pub(crate) jobs: Vec<Job>,
    /// All bytes outside the tensors, with their offsets.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    pub(crate) total_bytes: u64,
    /// Headers that contain checksums, written last.
    pub(crate) deferred: Option<Box<dyn DeferredHeaders>>,
    /// The order of the tensors' bytes, if it is not that of memory.
    pub(super) byte_order: Option<Box<dyn ByteOrder>>,
    /// Whether every job is one tile, so that its bytes arrive in order.
    pub(super) is_ordered: bool,
}

/// Output tensors that are produced together.
pub(crate) struct Job {
    pub(crate) outputs: Vec<PlacedTensor>,
    pub(crate) work: Work,
}

/// An output tensor with its offset.
pub(crate) struct PlacedTensor {
    pub(crate) output: OutputTensor,
    /// Its index in the order passed to the container.
    pub(crate) index: usize,
    /// Absolute offset in the output.
    pub(crate) offset: u64,
}

/// How output tensors are produced.
pub(crate) enum Work {
    /// Stored bytes are copied.
    Copy { extent: Extent, source: TensorId },
    /// Values are decoded to one tensor of plain floats.
    Decode(Values),
    /// Values are encoded to a quantised weight with its companions; `name` is that of the weight.
    Encode {
        name: String,
        values: Values,
        encoder: Box<dyn TileEncoder>,
        checks: Checks,
        /// The weights that share its global scale, including itself.
        shared: Option<Arc<SharedScale>>,
    },
}

/// Checks of values that are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checks {
    /// Replace NaN by zero and infinities by the largest value of their scale, and write values that decode to NaN or
    /// infinity, instead of refusing them.
    pub allow_nonfinite: bool,
    /// Measure the quantisation error.
    pub measure: bool,
    /// The type that loaders decode the weight to, in which values must be finite.
    pub loaded_as: TargetDtype,
}

/// A job before its outputs have offsets.
pub(crate) struct Planned {
    pub(crate) outputs: Vec<OutputTensor>,
    pub(crate) work: Work,
}

impl Planned {
    /// The position of its input: jobs in this order read the input sequentially.
    pub(crate) fn source(&self) -> (u32, u64) {
        self.work.parts().first().map_or((0, 0), |extent| (extent.file, extent.offset))
    }

    /// Bytes of all its outputs.
    pub(crate) fn bytes(&self) -> u64 {
        self.outputs.iter().fold(0, |sum, output| sum.saturating_add(output.bytes))
    }
}

impl Work {
    /// The stored bytes it reads, the main part first.
    pub(crate) fn parts(&self) -> &[Extent] {
        match self {
            Self::Copy { extent, .. } => std::slice::from_ref(extent),
            Self::Decode(values) | Self::Encode { values, .. } => &values.parts,
        }
    }

    /// The values it decodes, if any.
    pub(crate) fn values(&self) -> Option<&Values> {
        match self {
            Self::Copy { .. } => None,
            Self::Decode(values) | Self::Encode { values, .. } => Some(values),
        }
    }

    /// The values of all weights that share its global scale.
    pub(super) fn shared(&self) -> Vec<&Values> {
        match self {
            Self::Encode { shared: Some(shared), .. } => shared.values().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a quantised weight is decoded.
    pub(crate) fn is_decoded(&self) -> bool {
        self.values().is_some_and(|values| values.origin == Origin::Quantised)
    }
}

impl Plan {
    /// Computes the layout of a file of `container`.
    pub(crate) fn new(
        mut planned: Vec<Planned>,
        container: &dyn Container,
        metadata: Option<&Metadata>,
    ) -> Result<Self> {
        // Taken out of their jobs and put back with their offsets: there can be hundreds of thousands.
        let counts: Vec<usize> = planned.iter().map(|planned| planned.outputs.len()).collect();
        let mut outputs: Vec<OutputTensor> = Vec::with_capacity(counts.iter().sum());
        outputs.extend(planned.iter_mut().flat_map(|planned| std::mem::take(&mut planned.outputs)));
        let Layout { pieces, offsets, total_bytes, deferred, byte_order } = container.lay_out(&outputs, metadata)?;
        let mut placed = outputs.into_iter().zip(offsets).enumerate().map(|(index, (output, offset))| PlacedTensor {
            output,
            index,
            offset,
        });
        let mut counts = counts.into_iter();
        // A job takes the place of what it was planned as.
        let job = |Planned { work, .. }| {
            let count = counts.next().unwrap_or_default();
            Job { outputs: placed.by_ref().take(count).collect(), work }
        };
        let mut jobs: Vec<Job> = planned.into_iter().map(job).collect();
        // Sorted by offset, so that a single worker writes sequentially.
        jobs.sort_by_key(|job| job.outputs.first().map_or(0, |first| first.offset));
        Ok(Self { jobs, pieces, total_bytes, deferred, byte_order, is_ordered: false })
    }

    /// A plan without a file: the outputs have consecutive offsets, in the given order.
    pub(crate) fn without_file(planned: Vec<Planned>) -> Self {
        let (mut offset, mut index) = (0u64, 0);
        let mut place = |output: OutputTensor| {
            let placed = PlacedTensor { offset, index, output };
            offset = offset.saturating_add(placed.output.bytes);
            index += 1;
            placed
        };
        let mut job = |Planned { outputs, work }| Job { outputs: outputs.into_iter().map(&mut place).collect(), work };
        let jobs = planned.into_iter().map(&mut job).collect();
        Self { jobs, pieces: Vec::new(), total_bytes: offset, deferred: None, byte_order: None, is_ordered: false }
    }

    /// The plan with every job as one tile, so that its bytes arrive in order.
    pub(crate) fn in_order(self) -> Self {
        Self { is_ordered: true, ..self }
    }

    /// Every output tensor with its job.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&Job, &PlacedTensor)> {
        self.jobs.iter().flat_map(|job| job.outputs.iter().map(move |placed| (job, placed)))
    }

    /// The bytes between pieces and tensors, which are zero. Deferred headers are written into them later, so that a plan
    /// with those has none.
    pub(crate) fn gaps(&self) -> Vec<Range<u64>> {
        if self.deferred.is_some() {
            return Vec::new();
        }
        let pieces = self.pieces.iter().map(|(offset, piece)| (*offset, piece.len() as u64));
        let tensors = self.tensors().map(|(_, placed)| (placed.offset, placed.output.bytes));
        let mut extents: Vec<_> = pieces.chain(tensors).collect();
        extents.sort_unstable();
        let mut gaps = Vec::new();
        let mut at = 0;
        for (offset, bytes) in extents.into_iter().chain([(self.total_bytes, 0)]) {
            if at < offset {
                gaps.push(at..offset);
            }
            at = at.max(offset.saturating_add(bytes));
        }
        gaps
    }

    /// The plan reduced to the weights that are quantised, the only ones that lose precision.
    pub(crate) fn into_encoded(mut self) -> Self {
        self.jobs.retain(|job| matches!(job.work, Work::Encode { .. }));
        Self { deferred: None, byte_order: None, ..self }
    }

    /// The number of quantised weights that are decoded.
    pub(crate) fn decoded(&self) -> usize {
        self.jobs.iter().filter(|job| job.work.is_decoded()).count()
    }
}

impl Job {
    pub(crate) fn bytes(&self) -> u64 {
        self.outputs.iter().map(|placed| placed.output.bytes).sum()
    }

    /// The name of its output, for messages.
    pub(crate) fn name(&self) -> &str {
        match &self.work {
            Work::Encode { name, .. } => name,
            Work::Copy { .. } | Work::Decode(_) => self.outputs.first().map_or("", |placed| &placed.output.name),
        }
    }
}
