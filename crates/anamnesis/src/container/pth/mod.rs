//! PyTorch files, written by `torch.save` and `torch.jit.save`: a ZIP archive or a legacy stream.
//!
//! Both consist of a pickle that describes an object, and storages of plain numbers. The pickle is read as data: its
//! globals must be on an allow list, nothing is imported, nothing is called. A tensor is a view of a storage: all
//! shapes, strides and offsets inside the storage are supported. NumPy arrays are tensors too, with their data in the
//! pickle. Opening reads the pickle and locates the storages only.
//!
//! Refused by name: quantised, sparse and nested tensors, complex128, pickled modules (which are code), and the tar
//! files of PyTorch before 0.1.10.

mod allow;
mod archive;
mod arrange;
mod choose;
mod contents;
mod distributed;
mod element;
mod front;
mod latin1;
pub(crate) mod legacy;
mod notes;
mod numpy;
pub(crate) mod pickle;
mod rebuild;
mod signs;
mod storage;
mod storage_index;
mod tree;
mod view;

use crate::catalog::{Catalog, Facts, Metadata, Subject};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::zip::{begins_archive, checksum_errors};
use crate::error::{AnamnesisError, Result};
use crate::io::{ReadAt, Source};
use crate::limits::Budget;

pub(crate) use allow::is_allowed;
pub(crate) use archive::check_pickle_size;
pub(crate) use arrange::{PthFile, arrange};
pub(super) use distributed::DISTRIBUTED;
pub(crate) use front::Front;

/// The PyTorch format.
pub(crate) struct Pth;

pub(super) const ABOUT: About = About {
    format: Format::Pth,
    name: "pth",
    file: "a PyTorch file",
    extensions: &["pth", "pt", "bin"],
    // `.bin` is shared by several formats.
    shared_extensions: &["bin"],
    writes: false,
    parts_are_one_file: false,
    container: &Pth,
};

impl Container for Pth {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if legacy::begins_with_long(head) {
            Evidence::Certain
        } else if begins_archive(head) {
            Evidence::Probable
        } else {
            Evidence::No
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let front = Front::read(&*source, options, budget)?;
        let PthFile { source, mut tensors, notes, big_endian } = arrange(front, source)?;
        tensors.iter_mut().for_each(|tensor| tensor.extent.file = file);
        let mut catalog = Catalog::new(tensors, None)?;
        catalog.types_are_final = true;
        catalog.notes = notes;
        let order = if big_endian { "big-endian" } else { "little-endian" };
        catalog.facts = Some(Facts::new("PyTorch state_dict").with(Subject::Layout, "Byte order", order));
        Ok(Opened { source, catalog })
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        let head = source.head()?;
        if begins_archive(&head) { checksum_errors(source, budget) } else { Ok(Vec::new()) }
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(
            "pth",
            "PyTorch files are read, not written; safetensors files load everywhere",
        ))
    }
}
