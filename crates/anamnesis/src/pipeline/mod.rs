//! From claimed tensors to an output: plan every byte, then fill it tile by tile.
//!
//! Memory is workers × (input window + tile), whatever the size of the model, and the bytes are the same for any number of
//! workers.

mod plan;
mod run;
mod sink;
mod tiles;

pub(crate) use plan::{Plan, Planned, PlannedTensor, Work, plan_tensors};
pub use run::Progress;
pub(crate) use run::{RunOptions, run};
pub(crate) use sink::{FileSink, MemorySink};
