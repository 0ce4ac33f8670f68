//! TensorFlow checkpoints: `X.index`, a table of tensors, and `X.data-00000-of-00001` with their bytes. A `SavedModel`
//! has one as `variables/variables.index`.
//!
//! [`table`] reads the index, [`entry`] its messages, [`slices`] finds the parts of partitioned variables. Checksums of
//! the index are verified when it is opened, those of tensors while they are read. The object graph of TensorFlow 2 is
//! left out. Strings, big-endian checkpoints and an index compressed by Snappy are refused. The format is defined by
//! `tensor_bundle` of TensorFlow.

mod bundle;
mod crc32c;
mod entry;
mod slices;
mod table;

use crate::catalog::Metadata;
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::Budget;

/// The format of TensorFlow's checkpoints.
pub(crate) struct TensorFlow;

const NAME: &str = "TensorFlow checkpoint";

pub(super) const ABOUT: About = About {
    format: Format::TensorFlow,
    name: NAME,
    file: "the index of a TensorFlow checkpoint",
    extensions: &["index"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &TensorFlow,
};

impl Container for TensorFlow {
    /// The first key is empty, and its value is the header: the number of data files, then the version.
    fn recognises(&self, head: &[u8]) -> Evidence {
        match head {
            [0, 0, length, 0x08, files, 0x1a, ..] if *length >= 4 && (1..=0x7f).contains(files) => Evidence::Probable,
            _ => Evidence::No,
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        bundle::open(source, file, options, budget)
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        bundle::damage(source, budget)
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(NAME, "checkpoints of TensorFlow are read, not written"))
    }
}
