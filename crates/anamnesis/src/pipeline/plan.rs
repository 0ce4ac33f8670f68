//! The plan: every output tensor with its name, type, size and place, before any value is known.

use std::sync::Arc;

use super::shared::SharedScale;
use super::values::{Origin, Values};
use crate::catalog::{Extent, Metadata, TargetDtype, TensorId};
use crate::container::{Container, DeferredHeaders, Layout, OutputTensor};
use crate::error::Result;
use crate::scheme::TileEncoder;

/// An output file, planned to the byte.
pub(crate) struct Plan {
    /// In the order of their first bytes.
    pub(crate) jobs: Vec<Job>,
    /// What is not a tensor, with its place in the file.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    pub(crate) total_bytes: u64,
    /// The last step, where the file carries checksums.
    pub(crate) deferred: Option<Box<dyn DeferredHeaders>>,
}

/// One or several tensors of the output that come about together.
pub(crate) struct Job {
    pub(crate) outputs: Vec<Placed>,
    pub(crate) work: Work,
}

/// One tensor of the output.
pub(crate) struct Placed {
    pub(crate) output: OutputTensor,
    /// Its place in the order in which the container was given the tensors.
    pub(crate) index: usize,
    /// Absolute offset in the output.
    pub(crate) offset: u64,
}

/// How output tensors come about.
pub(crate) enum Work {
    /// Bytes are copied as they are.
    Copy { extent: Extent, source: TensorId },
    /// Values become one tensor of plain floats.
    Decode(Values),
    /// Values become a quantised weight with its companions, which people know by one name.
    Encode {
        name: String,
        values: Values,
        encoder: Box<dyn TileEncoder>,
        checks: Checks,
        /// The weights it shares its global scale with, itself among them.
        shared: Option<Arc<SharedScale>>,
    },
}

/// What is asked of values on their way into a quantised weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checks {
    /// Whether NaN becomes zero and infinities the largest value under their scale, and what decodes to no number is written,
    /// instead of being refused.
    pub allow_nonfinite: bool,
    /// Whether the distance to what was encoded is measured.
    pub measure: bool,
    /// The type that loaders decode the weight to: what is encoded must be finite in it.
    pub loaded_as: TargetDtype,
}

/// Output tensors that have no place in a file yet.
pub(crate) struct Planned {
    pub(crate) outputs: Vec<OutputTensor>,
    pub(crate) work: Work,
}

impl Planned {
    /// Where the bytes it is made of begin: planning in this order reads the input from front to back.
    pub(crate) fn source(&self) -> (u32, u64) {
        self.work.parts().first().map_or((0, 0), |extent| (extent.file, extent.offset))
    }

    /// Bytes of all its outputs.
    pub(crate) fn bytes(&self) -> u64 {
        self.outputs.iter().fold(0, |sum, output| sum.saturating_add(output.bytes))
    }
}

impl Work {
    /// The stored bytes it is made of, the most telling first.
    pub(crate) fn parts(&self) -> &[Extent] {
        match self {
            Self::Copy { extent, .. } => std::slice::from_ref(extent),
            Self::Decode(values) | Self::Encode { values, .. } => &values.parts,
        }
    }

    /// The values it goes through, where it does.
    pub(crate) fn values(&self) -> Option<&Values> {
        match self {
            Self::Copy { .. } => None,
            Self::Decode(values) | Self::Encode { values, .. } => Some(values),
        }
    }

    /// The values of all weights that it shares a global scale with, where it does.
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
    /// Lays tensors out in one file of `container`.
    pub(crate) fn new(planned: Vec<Planned>, container: &dyn Container, metadata: Option<&Metadata>) -> Result<Self> {
        let outputs: Vec<OutputTensor> = planned.iter().flat_map(|planned| planned.outputs.iter().cloned()).collect();
        let Layout { pieces, offsets, total_bytes, deferred } = container.lay_out(&outputs, metadata)?;
        let mut placed = outputs.into_iter().zip(offsets).enumerate().map(|(index, (output, offset))| Placed {
            output,
            index,
            offset,
        });
        let mut jobs: Vec<Job> = planned
            .into_iter()
            .map(|Planned { outputs, work }| Job { outputs: placed.by_ref().take(outputs.len()).collect(), work })
            .collect();
        // Written from the front to the back, so that a single worker writes the file in order.
        jobs.sort_by_key(|job| job.outputs.first().map_or(0, |first| first.offset));
        Ok(Self { jobs, pieces, total_bytes, deferred })
    }

    /// Every output tensor with the job it belongs to.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&Job, &Placed)> {
        self.jobs.iter().flat_map(|job| job.outputs.iter().map(move |placed| (job, placed)))
    }

    /// What of it loses precision: the weights that are quantised, and nothing else.
    pub(crate) fn into_encoded(mut self) -> Self {
        self.jobs.retain(|job| matches!(job.work, Work::Encode { .. }));
        Self { deferred: None, ..self }
    }

    /// Quantised weights that are decoded.
    pub(crate) fn decoded(&self) -> usize {
        self.jobs.iter().filter(|job| job.work.is_decoded()).count()
    }
}

impl Job {
    pub(crate) fn bytes(&self) -> u64 {
        self.outputs.iter().map(|placed| placed.output.bytes).sum()
    }

    /// What it makes, for messages.
    pub(crate) fn name(&self) -> &str {
        match &self.work {
            Work::Encode { name, .. } => name,
            Work::Copy { .. } | Work::Decode(_) => self.outputs.first().map_or("", |placed| &placed.output.name),
        }
    }
}
