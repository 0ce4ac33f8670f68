//! What every container can do.

use super::layout::{Layout, OutputTensor};
use super::options::OpenOptions;
use crate::catalog::{Catalog, Dtype, Metadata, MetadataValue};
use crate::error::Result;
use crate::io::Source;
use crate::limits::Budget;

/// A file format.
pub(crate) trait Container: Send + Sync {
    /// What the first bytes of a file say about its being of this format.
    fn recognises(&self, head: &[u8]) -> Evidence;

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

/// What the first bytes of a file say about its being of a format, the most telling last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// It is not.
    No,
    /// Nothing speaks against it.
    Possible,
    /// Files of the format are like this, and so are others: their names decide.
    Alike,
    /// Files of the format are like this, and hardly any others, whatever they are called.
    Probable,
    /// Only files of the format are like this.
    Certain,
}

/// A file whose front matter has been read.
pub(crate) struct Opened {
    /// Where the extents of the catalog lead: the file's own bytes, or a source over them that shows compressed or
    /// differently ordered tensors as they should be.
    pub source: Box<dyn Source>,
    pub catalog: Catalog,
}
