//! The trait that every container implements.

use super::layout::{Layout, OutputTensor};
use super::options::OpenOptions;
use crate::catalog::{Catalog, Dtype, Metadata, MetadataValue};
use crate::error::Result;
use crate::io::Source;
use crate::limits::Budget;

/// A file format.
pub(crate) trait Container: Send + Sync {
    /// How strongly the first bytes of a file indicate this format.
    fn recognises(&self, head: &[u8]) -> Evidence;

    /// Reads the front matter of one file and nothing else. `file` is its index in the checkpoint.
    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened>;

    /// The layout of a new file, before any tensor value is known.
    fn lay_out(&self, tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout>;

    /// All metadata of a file in file order, for containers whose `open` does not read all of it.
    fn metadata(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<(String, MetadataValue)>> {
        let _ = (source, budget);
        Ok(Vec::new())
    }

    /// Checksum mismatches of a file, as messages. Reads the whole file if it carries checksums.
    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        let _ = (source, budget);
        Ok(Vec::new())
    }

    /// Whether the format can store a tensor of this type and shape.
    fn holds(&self, dtype: Dtype, shape: &[usize]) -> bool {
        let _ = (dtype, shape);
        true
    }

    /// The format with big-endian files, if it has them.
    fn big_endian(&self) -> Option<&'static dyn Container> {
        None
    }

    /// The shape under which a tensor of this shape is stored.
    fn shape(&self, shape: &[usize]) -> Vec<usize> {
        shape.to_vec()
    }
}

/// How strongly the first bytes of a file indicate a format, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// Not this format.
    No,
    /// Not excluded.
    Possible,
    /// Consistent with this format and with others; the extension decides.
    Ambiguous,
    /// Almost certainly this format, whatever the extension.
    Probable,
    /// Certainly this format.
    Certain,
}

/// A file whose front matter has been read.
pub(crate) struct Opened {
    /// The source that the extents of the catalog refer to: the file itself, or a view of it with compressed or
    /// reordered tensors in plain form.
    pub source: Box<dyn Source>,
    pub catalog: Catalog,
}
