//! From claimed tensors to an output: plan every byte, then fill the file tile by tile.
//!
//! Memory is workers × (input window + tile), whatever the size of the model. The output does not depend on the
//! number of workers.

mod buffers;
mod cores;
mod direct;
mod encode;
mod fingerprint;
mod measure;
mod options;
mod plan;
mod report;
mod run;
mod scheduler;
mod shared;
mod sink;
mod stream;
mod tiles;
mod values;

pub use cores::Cores;
pub(crate) use direct::{decode_in_steps, decode_into, decode_range};
pub(crate) use fingerprint::{Digest, Fingerprint};
pub(crate) use measure::Distance;
pub use options::{OnTensor, RememberOptions};
pub(crate) use plan::{Checks, Job, PlacedTensor, Plan, Planned, Work};
pub use report::Progress;
pub(crate) use run::{run, run_all};
pub(crate) use scheduler::Output;
pub(crate) use shared::SharedScale;
pub(crate) use sink::{FileSink, MemorySink, NullSink, TileSink, UnnamedFileSink};
pub(crate) use stream::{SpoolSink, StreamSink};
pub(crate) use values::{Origin, Values};
