//! From claimed tensors to an output: plan every byte, then fill the file tile by tile.
//!
//! Memory is workers × (input window + tile), whatever the size of the model. The output does not depend on the
//! number of workers.

mod announced;
mod buffers;
mod cores;
mod direct;
#[cfg(feature = "convert")]
mod encode;
#[cfg(feature = "convert")]
mod fingerprint;
#[cfg(feature = "convert")]
mod measure;
mod options;
mod plan;
#[cfg(feature = "convert")]
mod report;
#[cfg(feature = "convert")]
mod run;
#[cfg(feature = "convert")]
mod scheduler;
mod shared;
#[cfg(feature = "convert")]
mod sink;
#[cfg(feature = "convert")]
mod stream;
mod tiles;
mod values;
mod workers;

pub use cores::Cores;
pub(crate) use direct::{decode_in_steps, decode_named, decode_range};
#[cfg(feature = "convert")]
pub(crate) use fingerprint::{Digest, Fingerprint};
#[cfg(feature = "convert")]
pub(crate) use measure::Distance;
pub use options::{OnTensor, RememberOptions};
#[cfg(feature = "convert")]
pub(crate) use plan::{Checks, Job, PlacedTensor, Plan, Planned, Work};
#[cfg(feature = "convert")]
pub use report::Progress;
#[cfg(feature = "convert")]
pub(crate) use run::{run, run_all};
#[cfg(feature = "convert")]
pub(crate) use scheduler::Output;
#[cfg(feature = "convert")]
pub(crate) use shared::SharedScale;
#[cfg(feature = "convert")]
pub(crate) use sink::{FileSink, MemorySink, NullSink, TileSink, UnnamedFileSink};
#[cfg(feature = "convert")]
pub(crate) use stream::{SpoolSink, StreamSink};
pub(crate) use values::{Origin, Values};
