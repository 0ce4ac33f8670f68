//! The input of a plan.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::checkpoint::Checkpoint;
use crate::io::Source;
use crate::limits::ParseLimits;

/// The part of a checkpoint that a plan needs to run, so that the checkpoint itself can be dropped.
pub(crate) struct PlanInput {
    pub sources: Arc<Vec<Box<dyn Source>>>,
    pub limits: ParseLimits,
    pub catalog: Arc<Catalog>,
}

impl PlanInput {
    pub(crate) fn of(checkpoint: &Checkpoint) -> Self {
        let Checkpoint { sources, catalog, limits, .. } = checkpoint;
        Self { sources: sources.clone(), catalog: catalog.clone(), limits: limits.clone() }
    }
}
