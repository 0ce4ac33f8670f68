//! PyTorch files: objects that `torch.save` and `torch.jit.save` wrote, in a ZIP archive or as a legacy stream.
//!
//! Both forms are a pickle that describes an object and storages of plain numbers beside it. The pickle is read as data: the
//! names it refers to must be on a list, nothing is imported, nothing is called. A tensor is a view of a storage: any shape,
//! strides and offset that stay inside it are read. NumPy arrays are tensors too, whose numbers are in the pickle. Only the
//! pickle and the places of the storages are read here.
//!
//! Refused by name: quantised, sparse and nested tensors, complex numbers of 128 bits, whole modules (which are code), and the
//! tar files of versions before 0.1.10.

mod allow;
mod archive;
mod arrange;
mod by_key;
mod choose;
mod element;
mod front;
mod inside;
mod latin;
pub(crate) mod legacy;
mod notes;
mod numpy;
pub(crate) mod pickle;
mod rebuild;
mod signs;
mod storage;
mod tree;
mod view;

use crate::catalog::{Catalog, Facts, Metadata, Subject};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::zip::{begins_archive, damaged_entries};
use crate::error::{AnamnesisError, Result};
use crate::io::{ReadAt, Source};
use crate::limits::Budget;

pub(crate) use allow::is_allowed;
pub(crate) use archive::check_pickle_size;
pub(crate) use arrange::{PthFile, arrange};
pub(crate) use front::Front;

/// The PyTorch format.
pub(crate) struct Pth;

pub(super) const ABOUT: About = About {
    format: Format::Pth,
    name: "pth",
    file: "a PyTorch file",
    extensions: &["pth", "pt", "bin"],
    // What a `.bin` file is, only its content tells.
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
        if begins_archive(&head) { damaged_entries(source, budget) } else { Ok(Vec::new()) }
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(
            "pth",
            "PyTorch files are read, not written; safetensors files load everywhere",
        ))
    }
}
