//! GGUF: typed metadata, tensor infos, and the tensors' data.
//!
//! | part | content |
//! |---|---|
//! | head | `GGUF`, u32 version, u64 number of tensors, u64 number of metadata entries |
//! | metadata | per entry: key, u32 type tag, value |
//! | tensor infos | per tensor: name, u32 rank, u64 dimensions (fastest-varying first), u32 type, u64 offset in the data |
//! | data | starts at the next multiple of the alignment, as does every tensor |
//!
//! Strings are a u64 length and UTF-8 without a terminator; arrays are a u32 type tag, a u64 length and the items.
//! The alignment is the metadata value `general.alignment`, or 32. Versions 2 and 3 are read, version 3 in both byte
//! orders, and written. Tensors follow one another in file order, separated by padding only. The format is specified in
//! `docs/gguf.md` of the ggml project.

mod byte_order;
mod caps;
mod header;
mod layout;
mod lazy;
mod metadata;

use std::io::{Read, Seek};

use crate::catalog::{Dtype, Metadata};
use crate::container::cursor::Cursor;
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, Source};
use crate::limits::Budget;

use byte_order::LittleEndian;

pub use crate::catalog::{MetadataArray as GgufMetadataArray, MetadataValue as GgufMetadataValue};
pub use crate::container::ggml_types::GgufType;
pub(crate) use header::GgufHeader;
pub use header::GgufTensorInfo;
pub(crate) use layout::{Endian, Keys, NewTensor, lay_out};
pub(crate) use lazy::LazyMetadata;
pub(crate) use metadata::Keep;

const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u32 = 32;
pub(crate) const ARCHITECTURE_KEY: &str = "general.architecture";

/// The GGUF format; files of both byte orders are read.
pub(crate) struct Gguf {
    /// The byte order of new files.
    endian: Endian,
}

pub(super) const ABOUT: About = About {
    format: Format::Gguf,
    name: "GGUF",
    file: "a GGUF file",
    extensions: &["gguf"],
    shared_extensions: &[],
    writes: true,
    parts_are_one_file: true,
    container: &Gguf { endian: Endian::Little },
};

impl Container for Gguf {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if head.starts_with(header::MAGIC) { Evidence::Certain } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, _options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let header = read_header(&*source, Keep::Scalars, budget)?;
        let (source, base) = arrange(source, &header)?;
        Ok(Opened { source, catalog: header.catalog(file, base)? })
    }

    fn lay_out(&self, tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout> {
        let shapes: Vec<Vec<usize>> =
            tensors.iter().map(|tensor| tensor.shape.iter().rev().copied().collect()).collect();
        let tensors = tensors.iter().zip(&shapes).map(|(tensor, shape)| new_tensor(tensor, shape));
        let tensors: Vec<_> = tensors.collect::<Result<_>>()?;
        let keys = if metadata.is_some_and(Metadata::has_order) { Keys::AsGiven } else { Keys::Sorted };
        lay_out(&tensors, metadata.into_iter().flat_map(Metadata::written), keys, self.endian)
    }

    fn metadata(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<(String, GgufMetadataValue)>> {
        Ok(read_header(source, Keep::All, budget)?.metadata)
    }

    fn holds(&self, dtype: Dtype, shape: &[usize]) -> bool {
        GgufType::from_dtype(dtype).is_some() && !shape.contains(&0)
    }

    fn big_endian(&self) -> Option<&'static dyn Container> {
        Some(&Self { endian: Endian::Big })
    }

    /// GGUF has no scalars: they are stored with shape `[1]`.
    fn shape(&self, shape: &[usize]) -> Vec<usize> {
        if shape.is_empty() { vec![1] } else { shape.to_vec() }
    }
}

fn new_tensor<'a>(tensor: &'a OutputTensor, shape: &'a [usize]) -> Result<NewTensor<'a>> {
    let dtype = GgufType::from_dtype(tensor.dtype).ok_or_else(|| {
        let why = format!("tensor {} has type {}, which GGUF does not have", quoted(&tensor.name), tensor.dtype);
        AnamnesisError::unsupported("GGUF", why)
    })?;
    Ok(NewTensor { name: &tensor.name, shape, dtype, bytes: tensor.bytes })
}

/// A source that presents the tensors in little-endian order, and the offset of the file in it.
pub(crate) fn arrange(source: Box<dyn Source>, header: &GgufHeader) -> Result<(Box<dyn Source>, u64)> {
    if !header.big_endian {
        return Ok((source, 0));
    }
    let placed = header.tensors.iter().filter_map(|tensor| {
        let range = tensor.data_offset..tensor.data_offset.checked_add(tensor.byte_len?)?;
        Some((tensor.dtype.dtype()?, range))
    });
    let region = LittleEndian::new(placed, source.len());
    let mut arranged = ArrangedSource::new(source);
    let base = arranged.add(Box::new(region))?;
    Ok((Box::new(arranged), base))
}

/// Reads the front matter of a file.
pub(crate) fn read_header(source: &dyn Source, keep: Keep, budget: &mut Budget) -> Result<GgufHeader> {
    GgufHeader::read(&mut Cursor::over_source(source), keep, budget)
}

/// Reads the front matter of a file and defers the metadata arrays, which are empty in the header.
pub(crate) fn read_header_lazily(source: &dyn Source, budget: &mut Budget) -> Result<(GgufHeader, LazyMetadata)> {
    GgufHeader::read_lazily(&mut Cursor::over_source(source), budget)
}

/// Reads the front matter from a reader, sequentially.
pub(crate) fn read_header_from(reader: impl Read + Seek, keep: Keep, budget: &mut Budget) -> Result<GgufHeader> {
    GgufHeader::read(&mut Cursor::over_reader(reader)?, keep, budget)
}
