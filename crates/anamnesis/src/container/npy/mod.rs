//! NumPy files: NPY, a single array, and NPZ, a ZIP archive of arrays.
//!
//! | offset | bytes | content of an NPY file |
//! |---|---|---|
//! | 0 | 6 | `\x93NUMPY` |
//! | 6 | 2 | version: 1.0, 2.0 or 3.0 |
//! | 8 | 2, or 4 from version 2 on | N, the length of the header, little-endian |
//! | 10 or 12 | N | a Python dictionary: `descr`, `fortran_order`, `shape`; padded with spaces, ends in a newline |
//! | 10 + N or 12 + N | rest | the elements, C or Fortran order, either byte order |
//!
//! In an NPZ every entry `name.npy` is an array; other entries are omitted. Arrays are presented in C order and
//! little-endian. Supported are booleans, integers, floats up to 64 bits, complex numbers of two F32, and the types
//! of the `ml_dtypes` package if `descr` identifies them: `V2` is BF16 and `f1` is F8_E5M2, but `V1` is shared by a
//! dozen types, so the caller has to choose. Objects, strings, dates, records and wider numbers are refused. Archives
//! are written with stored entries and NumPy's own headers. Names that are unsafe as file paths are neither read nor
//! written. The format is specified in NumPy's `numpy.lib.format`.

mod arrays;
mod descr;
mod header;
mod layout;
mod literal;
mod names;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
mod tests;

use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{Catalog, Dtype, Extent, Facts, Metadata, StoredTensor};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::strided::Strided;
use crate::container::zip::{Checked, Inflated, Method, Spill, begins_archive, checksum_errors, first_name};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, Region, Source};
use crate::limits::Budget;

pub(crate) use arrays::{Array, Arrays, read_arrays};
use header::Header;

/// NPZ archives.
pub(crate) struct Npz;

pub(super) const NPZ: About = About {
    format: Format::Npz,
    name: "NPZ",
    file: "an NPZ archive",
    extensions: &["npz"],
    shared_extensions: &[],
    writes: true,
    parts_are_one_file: false,
    container: &Npz,
};

impl Container for Npz {
    /// Any archive may hold arrays; if the first entry is an array, it is an NPZ.
    fn recognises(&self, head: &[u8]) -> Evidence {
        match first_name(head) {
            Some(name) if name.ends_with(b".npy") => Evidence::Certain,
            _ if begins_archive(head) => Evidence::Ambiguous,
            _ => Evidence::No,
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let Arrays { arrays, notes } = read_arrays(&*source, options, budget)?;
        let mut arranged = ArrangedSource::new(source);
        let spill = Spill::new();
        let mut tensors = Vec::with_capacity(arrays.len());
        for array in arrays {
            let offset = arrange_entry(&mut arranged, &array, &spill)?;
            tensors.push(stored_tensor(array.name, &array.header, file, offset));
        }
        let mut catalog = Catalog::new(tensors, None)?;
        catalog.holds_plain_arrays = true;
        catalog.notes = notes;
        catalog.facts = Some(Facts::new("NPZ archive"));
        Ok(Opened { source: Box::new(arranged), catalog })
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        checksum_errors(source, budget)
    }

    fn lay_out(&self, tensors: &[OutputTensor], _metadata: Option<&Metadata>) -> Result<Layout> {
        layout::lay_out(tensors)
    }

    fn holds(&self, dtype: Dtype, _shape: &[usize]) -> bool {
        descr::descr_of(dtype).is_some()
    }
}

/// Single arrays.
pub(crate) struct Npy;

pub(super) const NPY: About = About {
    format: Format::Npy,
    name: "NPY",
    file: "a NumPy array",
    extensions: &["npy"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Npy,
};

impl Container for Npy {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if head.starts_with(header::MAGIC) { Evidence::Certain } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let stem = source.path().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
        let name = stem.unwrap_or_else(|| String::from("array"));
        let header = Header::read(&name, source.len(), options, budget, |bytes| {
            let mut prefix = vec![0; source.len().min(bytes) as usize];
            source.read_at(0, &mut prefix)?;
            Ok(prefix)
        })?;
        arrays::refuse_unknown_names(options, [name.as_str()])?;
        let mut arranged = ArrangedSource::new(source);
        let offset = arrange(&mut arranged, &header, header.data_offset, false)?;
        let mut catalog = Catalog::new(vec![stored_tensor(name, &header, file, offset)], None)?;
        catalog.holds_plain_arrays = true;
        catalog.facts = Some(Facts::new("NPY array"));
        Ok(Opened { source: Box::new(arranged), catalog })
    }

    fn lay_out(&self, _tensors: &[OutputTensor], _metadata: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported("NPY", "an array file holds one array; models are written as NPZ"))
    }
}

fn stored_tensor(name: String, header: &Header, file: u32, offset: u64) -> StoredTensor {
    let extent = Extent { file, offset, bytes: header.data_bytes };
    StoredTensor { name, dtype: header.element.dtype, shape: header.shape.clone(), extent }
}

/// Adds a region that presents an entry's elements in C order and little-endian, and returns its offset.
fn arrange_entry(arranged: &mut ArrangedSource, array: &Array, spill: &Arc<Spill>) -> Result<u64> {
    let Array { entry, header, .. } = array;
    if header.data_bytes == 0 {
        return Ok(0);
    }
    match entry.method {
        Method::Stored => {
            // A reordering view reads some bytes repeatedly or not at all.
            let make = if header.needs_reordering() { Checked::upfront } else { Checked::incremental };
            let start = arranged.add(Box::new(make(header.data_offset, entry.clone())))?;
            arrange(arranged, header, start, false)
        }
        Method::Deflated if header.needs_reordering() => {
            let start = arranged.add(Box::new(Inflated::random_access(entry.clone(), true, spill)))?;
            arrange(arranged, header, start + header.data_offset, false)
        }
        Method::Deflated => {
            let start = arranged.add(Box::new(Inflated::sequential(entry.clone(), true, spill)))?;
            arrange(arranged, header, start + header.data_offset, true)
        }
        Method::Other(_) => Err(AnamnesisError::parse(format!("ZIP entry {} cannot be read", quoted(&entry.name)))),
    }
}

/// Adds a region that reorders elements and swaps bytes, if needed, and returns its offset.
fn arrange(arranged: &mut ArrangedSource, header: &Header, start: u64, in_order: bool) -> Result<u64> {
    if !header.needs_reordering() && header.element.swap_bytes == 1 {
        return Ok(start);
    }
    let width = header.element.dtype.byte_size();
    let view =
        Strided::new(start, header.data_bytes, width, header.element.swap_bytes, &header.shape, &header.strides())?;
    arranged.add(if in_order { Box::new(Sequential(view)) } else { Box::new(view) })
}

/// A view of a region that is best read sequentially.
struct Sequential(Strided);

impl Region for Sequential {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(below, offset, buffer)
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, hasher: &mut dyn Hasher) {
        self.0.identify(below, range, hasher);
    }

    fn is_sequential(&self) -> bool {
        true
    }

    fn tile_bytes(&self) -> Option<u64> {
        self.0.tile_bytes()
    }
}
