//! File formats: what a container holds, and how one is laid out. Containers know nothing of quantisation schemes.
//!
//! A new container is a folder here and a line where the checkpoint room tells formats apart.

use crate::catalog::{Catalog, Dtype, Metadata, MetadataValue};
use crate::error::Result;
use crate::io::Source;
use crate::limits::Budget;

pub(crate) mod gguf;
pub(crate) mod npy;
mod options;
pub(crate) mod pth;
pub(crate) mod safetensors;
pub(crate) mod zip;

pub use options::{Configuration, OpenOptions};

/// A file format.
pub(crate) trait Container: Send + Sync {
    /// Reads the front matter of one file and nothing else. `file` is its index in the checkpoint.
    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened>;

    /// Where everything goes in a new file, before any value is known.
    fn lay_out(&self, tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout>;

    /// All metadata of a file in its own order, where opening it has not read everything.
    fn metadata(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<(String, MetadataValue)>> {
        let _ = (source, budget);
        Ok(Vec::new())
    }

    /// What is wrong with the bytes of a file by the checksums it carries, for people. Reads everything where there are any.
    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        let _ = (source, budget);
        Ok(Vec::new())
    }

    /// Whether a file can hold a tensor like this.
    fn holds(&self, dtype: Dtype, shape: &[usize]) -> bool {
        let _ = (dtype, shape);
        true
    }

    /// The shape that a tensor of this shape gets.
    fn shape(&self, shape: &[usize]) -> Vec<usize> {
        shape.to_vec()
    }
}

/// A file whose front matter has been read.
pub(crate) struct Opened {
    /// Where the extents of the catalog lead: the file's own bytes, or a source over them that shows compressed or
    /// differently ordered tensors as they should be.
    pub source: Box<dyn Source>,
    pub catalog: Catalog,
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(crate) struct OutputTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: u64,
}

/// The shape of a new file: the bytes around the tensors, and where each tensor's bytes go.
pub(crate) struct Layout {
    /// What is not a tensor, with its place. The first piece is the front of the file.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// Absolute offset of each tensor, in the order they were given.
    pub offsets: Vec<u64>,
    pub total_bytes: u64,
    /// Writes what depends on the tensors' bytes, where the format has such a thing.
    pub seal: Option<Box<dyn Seal>>,
}

impl Layout {
    /// A file that is a header and tensors.
    pub(crate) fn behind_header(header: Vec<u8>, offsets: Vec<u64>, total_bytes: u64) -> Self {
        Self { pieces: vec![(0, header)], offsets, total_bytes, seal: None }
    }

    /// The front of the file.
    pub(crate) fn front(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |(_, bytes)| bytes)
    }
}

/// The last step of a file that carries checksums of its tensors.
pub(crate) trait Seal: Send + Sync {
    /// The pieces to write last, from the CRC-32 of every tensor's bytes, in the order they were given.
    fn seal(&self, checksums: &[u32]) -> Result<Vec<(u64, Vec<u8>)>>;
}
