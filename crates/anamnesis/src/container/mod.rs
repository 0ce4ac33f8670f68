//! File formats: what a container holds, and how one is laid out. Containers know nothing of quantisation schemes.
//!
//! A new container is a folder here and a line where the checkpoint room tells formats apart.

use crate::catalog::{Catalog, Dtype, Metadata};
use crate::error::Result;
use crate::io::Source;
use crate::limits::Budget;

pub(crate) mod gguf;
pub(crate) mod safetensors;
#[allow(dead_code, unused_imports, reason = "the containers over it use each a part")]
pub(crate) mod zip;

/// A file format.
pub(crate) trait Container: Send + Sync {
    /// Reads the front matter of one file and nothing else. `file` is its index in the checkpoint.
    fn catalog(&self, source: &dyn Source, file: u32, budget: &mut Budget) -> Result<Catalog>;

    /// Where everything goes in a new file, before any value is known.
    fn lay_out(&self, tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout>;
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(crate) struct OutputTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: u64,
}

/// The shape of a new file: its first bytes, and where each tensor's bytes go.
#[derive(Debug)]
pub(crate) struct Layout {
    pub header: Vec<u8>,
    /// Absolute offset of each tensor, in the order they were given.
    pub offsets: Vec<u64>,
    pub total_bytes: u64,
}
