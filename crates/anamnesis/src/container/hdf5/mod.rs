//! HDF5 as Keras and h5py write it, and `.keras`, a ZIP archive with an HDF5 file of weights.
//!
//! A file is a superblock, which leads to the root group, and objects: groups, whose links lead to others, and datasets.
//! The name of a tensor is the path of its dataset. [`file`] finds the superblock, [`header`] reads the messages that
//! describe an object, [`group`] the links of a group, [`dataset`] the type, shape and layout of a dataset, [`chunks`]
//! the places of its chunks, [`filters`] restores them. Newer structures have checksums ([`lookup3`]), which are verified.
//!
//! | read | |
//! |---|---|
//! | superblocks | 0 to 3 with addresses of eight bytes, at byte 0 or behind a user block |
//! | groups | symbol tables, links in messages and in fractal heaps |
//! | layouts | compact, contiguous, chunked under every index |
//! | filters | deflate, shuffle, fletcher32 |
//! | types | integers and IEEE floats of either byte order, BF16, bool, Keras' opaque BF16 |
//!
//! Soft links are skipped. Text, records, committed types, external and virtual data are refused. The format is
//! specified in the "HDF5 File Format Specification" of the HDF Group.

mod attribute;
mod chunks;
mod dataset;
mod datatype;
mod file;
mod filters;
mod group;
mod header;
mod heap;
mod lookup3;
mod tree;
mod walk;

use crate::catalog::{Catalog, Facts, Metadata, Note, Unreadable};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::pages::Pages;
use crate::container::zip::{Archive, Checked, Inflated, Method, Spill, begins_archive, checksum_errors, first_name};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, Source};
use crate::limits::Budget;

/// HDF5 files.
pub(crate) struct Hdf5;

const NAME: &str = "HDF5";

pub(super) const HDF5: About = About {
    format: Format::Hdf5,
    name: NAME,
    file: "an HDF5 file",
    extensions: &["h5", "hdf5"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Hdf5,
};

impl Container for Hdf5 {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if head.starts_with(file::SIGNATURE) { Evidence::Certain } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let bytes = source.len();
        opened(ArrangedSource::new(source), 0..bytes, (file, "HDF5 file"), options, budget)
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(NAME, "HDF5 files are read, not written"))
    }
}

/// Keras' archives.
pub(crate) struct Keras;

/// The entry of an archive that has the weights, and that which describes the model.
const WEIGHTS: &str = "model.weights.h5";
const CONFIG: &[u8] = b"config.json";
const ARCHIVE_METADATA: &[u8] = b"metadata.json";

pub(super) const KERAS: About = About {
    format: Format::Keras,
    name: "Keras",
    file: "a Keras archive",
    extensions: &["keras"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Keras,
};

impl Container for Keras {
    /// An archive starts with the model's descriptions, or the extension decides.
    fn recognises(&self, head: &[u8]) -> Evidence {
        match first_name(head) {
            Some(name) if name == CONFIG || name == ARCHIVE_METADATA || name == WEIGHTS.as_bytes() => Evidence::Certain,
            _ if begins_archive(head) => Evidence::Ambiguous,
            _ => Evidence::No,
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let archive = Archive::read(&*source, budget)?;
        let missing = || AnamnesisError::parse(format!("the archive has no entry {}", quoted(WEIGHTS)));
        let entry = archive.entries.into_iter().find(|entry| entry.name == WEIGHTS).ok_or_else(missing)?;
        entry.check_readable("Keras", budget)?;
        let bytes = entry.bytes;
        let mut arranged = ArrangedSource::new(source);
        let start = match entry.method {
            Method::Stored => arranged.add(Box::new(Checked::upfront(0, entry)))?,
            _ => arranged.add(Box::new(Inflated::random_access(entry, true, &Spill::new())))?,
        };
        opened(arranged, start..start + bytes, (file, "Keras archive"), options, budget)
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        checksum_errors(source, budget)
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported("Keras", "Keras archives are read, not written"))
    }
}

/// The texts of attributes of the root group, at most so many bytes each; those that are missing are left out.
pub(crate) fn root_texts(
    source: &dyn Source,
    names: &[&'static str],
    most: u64,
) -> Result<Vec<(&'static str, String)>> {
    let pages = Pages::new(source);
    let file = file::File::new(&pages)?;
    let messages = header::messages(&file, file.root)?;
    let mut texts = Vec::new();
    for &name in names {
        texts.extend(attribute::text(&file, &messages, name, most)?.map(|text| (name, text)));
    }
    Ok(texts)
}

/// The datasets of the file in a range of the source.
fn opened(
    mut arranged: ArrangedSource,
    range: std::ops::Range<u64>,
    (file, title): (u32, &str),
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<Opened> {
    let found = walk::walk(&Pages::within(&arranged, range), budget)?;
    let mut tensors = Vec::with_capacity(found.datasets.len());
    for (name, dataset) in found.datasets {
        let tensor = dataset.arrange(name.clone(), file, &mut arranged).map_err(|error| error.in_tensor(&name))?;
        tensors.push(tensor);
    }
    let mut catalog = Catalog::new(tensors, None)?;
    catalog.holds_plain_arrays = true;
    catalog.types_are_final = true;
    catalog.facts = Some(Facts::new(title));
    match options.skip_unsupported {
        true => catalog.notes = found.refused.into_iter().map(|why| Note::new(format!("left out: {why}"))).collect(),
        false => catalog.unreadable = found.refused.into_iter().map(|why| Unreadable { format: NAME, why }).collect(),
    }
    Ok(Opened { source: Box::new(arranged), catalog })
}
