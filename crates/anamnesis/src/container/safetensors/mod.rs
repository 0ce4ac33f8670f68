//! safetensors: a JSON header followed by the tensors' data.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | N, the length of the header, little-endian |
//! | 8 | N | JSON object: tensor name → `dtype`, `shape`, `data_offsets`; `__metadata__` → strings; may end in spaces |
//! | 8 + N | rest | the tensors, C order, little-endian, contiguous up to the end of the file |
//!
//! All element types of the format are read. Offsets are relative to the data section. Unknown keys of a tensor's
//! entry are ignored, as in the reference implementation; any other deviation is refused.

mod header;
mod json;
mod layout;

use crate::catalog::{Dtype, Metadata};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::error::Result;
use crate::io::Source;
use crate::limits::Budget;

pub use header::MAX_SAFETENSORS_HEADER_BYTES;
pub(crate) use header::{Header, PREFIX_BYTES, parse_header_prefix, read_header};

/// The safetensors format.
pub(crate) struct Safetensors;

pub(super) const ABOUT: About = About {
    format: Format::Safetensors,
    name: "safetensors",
    file: "a safetensors file",
    extensions: &["safetensors"],
    shared_extensions: &[],
    writes: true,
    parts_are_one_file: false,
    container: &Safetensors,
};

impl Container for Safetensors {
    /// There is no magic: any file that starts with a number may be a safetensors file.
    fn recognises(&self, head: &[u8]) -> Evidence {
        if header::begins_header(head) { Evidence::Ambiguous } else { Evidence::Possible }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, _options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let catalog = read_header(&*source, budget)?.into_catalog(file)?;
        Ok(Opened { source, catalog })
    }

    fn lay_out(&self, tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout> {
        layout::lay_out(tensors, metadata)
    }

    fn holds(&self, dtype: Dtype, _shape: &[usize]) -> bool {
        dtype.safetensors_rank().is_ok()
    }
}
