//! Datasets: their type, shape and layout, and how their elements are presented.

use std::sync::Arc;

use super::attribute;
use super::chunks::{Grid, Index};
use super::datatype::Type;
use super::file::{Bytes, File, defined};
use super::filters::{Filter, Filtered, MAX_GROWTH, filters};
use super::header::Message;
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, Extent, StoredTensor};
use crate::container::pieces::{Assembled, Cells, Piece};
use crate::container::strided::Strided;
use crate::error::{AnamnesisError, Result};
use crate::io::ArrangedSource;
use crate::limits::Budget;

const DATASPACE: u16 = 1;
const DATATYPE: u16 = 3;
const OLD_FILL: u16 = 4;
const FILL: u16 = 5;
const EXTERNAL: u16 = 7;
const LAYOUT: u16 = 8;
const FILTERS: u16 = 11;
/// Keras' attribute with the type of opaque bytes.
const KERAS_DTYPE: &str = "dtype";
const MAX_DTYPE_BYTES: u64 = 1 << 16;
/// Maximum bytes of a chunk with filters, which is restored as a whole.
const MAX_CHUNK_BYTES: u64 = 64 << 20;
const MAX_RANK: u8 = 32;
/// Maximum ratio of the size of a dataset, which may lack chunks, to that of its file: the expansion of deflate.
const HDF5_MAX_GROWTH: u64 = MAX_GROWTH;
/// Bytes that every dataset may have.
const FREE_BYTES: u64 = 16 << 20;

/// A dataset of numbers.
pub(super) struct Dataset {
    dtype: Dtype,
    is_big_endian: bool,
    shape: Vec<u64>,
    fill: Vec<u8>,
    data: Data,
}

/// The places of its bytes in the source.
enum Data {
    At(u64),
    /// Chunks, and the filters of each; there are none if it was never written.
    Chunks(Vec<(Piece, Option<Filtered>)>),
}

/// A dataset, or why it is not read.
pub(super) type Read = std::result::Result<Dataset, String>;

/// Whether these are the messages of a dataset.
pub(super) fn is_dataset(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.kind == LAYOUT)
}

impl Dataset {
    pub(super) fn read(file: &File<'_, '_>, messages: &[Message], budget: &mut Budget) -> Result<Read> {
        let find = |kind: u16| messages.iter().find(|message| message.kind == kind);
        let needed =
            |kind: u16, what: &str| find(kind).ok_or_else(|| AnamnesisError::parse(format!("a dataset has no {what}")));
        if find(EXTERNAL).is_some() {
            return Ok(Err("has its data in another file".to_owned()));
        }
        let (space, kind, layout) =
            (needed(DATASPACE, "dataspace")?, needed(DATATYPE, "type")?, needed(LAYOUT, "layout")?);
        if [space, kind, layout].iter().any(|message| message.is_shared()) {
            return Ok(Err("has a committed type".to_owned()));
        }
        let (dtype, is_big_endian) = match Type::parse(&kind.content)? {
            Type::Number { dtype, is_big_endian } => (dtype, is_big_endian),
            Type::Opaque { bytes: 2 }
                if attribute::text(file, messages, KERAS_DTYPE, MAX_DTYPE_BYTES)?.as_deref() == Some("bfloat16") =>
            {
                (Dtype::BF16, false)
            }
            Type::Opaque { bytes } => return Ok(Err(format!("has opaque elements of {bytes} bytes"))),
            Type::Other(name) => return Ok(Err(format!("has {name}"))),
        };
        let Some((shape, max_shape)) = dataspace(&space.content)? else {
            return Ok(Err("has no elements, not even an empty shape".to_owned()));
        };
        let element_bytes = dtype.byte_size() as u64;
        let bytes = shape.iter().try_fold(element_bytes, |bytes, &size| bytes.checked_mul(size));
        let bytes = bytes.ok_or_else(|| AnamnesisError::parse("a dataset has more than 2^64 bytes"))?;
        let filters = match find(FILTERS).map(|message| filters(&message.content)).transpose()? {
            Some(Ok(filters)) => filters,
            Some(Err(name)) => return Ok(Err(format!("has the filter {name}"))),
            None => Vec::new(),
        };
        let fill = match (find(FILL), find(OLD_FILL)) {
            (Some(message), _) => fill(&message.content, element_bytes)?,
            (None, Some(message)) => sized(&mut message.bytes(), element_bytes)?,
            (None, None) => Vec::new(),
        };
        let most = file.bytes().saturating_mul(HDF5_MAX_GROWTH).max(FREE_BYTES);
        if bytes > most {
            let why = format!("a dataset of {bytes} bytes in a file of {}, {most} are allowed", file.bytes());
            return Err(AnamnesisError::limit("HDF5_MAX_GROWTH", why));
        }
        let shaped = Shaped { shape, max_shape, element_bytes, bytes };
        let data = match shaped.layout(file, layout, filters, budget)? {
            Ok(data) => data,
            Err(why) => return Ok(Err(why)),
        };
        Ok(Ok(Self { dtype, is_big_endian, shape: shaped.shape, fill, data }))
    }

    /// The stored tensor, and the regions that present it.
    pub(super) fn arrange(self, name: String, file: u32, arranged: &mut ArrangedSource) -> Result<StoredTensor> {
        let Self { dtype, is_big_endian, shape, fill, data } = self;
        let size =
            |&size: &u64| usize::try_from(size).map_err(|_| AnamnesisError::parse(format!("a dimension is {size}")));
        let usizes = shape.iter().map(size).collect::<Result<Vec<usize>>>()?;
        let count = elements(&usizes).unwrap_or_default();
        let (width, bytes) = (dtype.byte_size(), count * dtype.byte_size() as u64);
        let mut offset = match data {
            _ if bytes == 0 => 0,
            Data::At(offset) => offset,
            Data::Chunks(chunks) => {
                let are_compressed = chunks.iter().any(|(_, filtered)| filtered.is_some());
                let mut pieces = Vec::with_capacity(chunks.len());
                for (mut piece, filtered) in chunks {
                    if let Some(filtered) = filtered {
                        piece.at = arranged.add(Box::new(filtered))?;
                    }
                    pieces.push(piece);
                }
                let cells = Cells { fill, are_compressed };
                arranged.add(Box::new(Assembled::of_cells(&shape, width as u64, pieces, cells)?))?
            }
        };
        if is_big_endian && width > 1 && bytes > 0 {
            let swapped = Strided::new(offset, bytes, width, width, &[count as usize], &[1])?;
            offset = arranged.add(Box::new(swapped))?;
        }
        Ok(StoredTensor { name, dtype, shape: usizes, extent: Extent { file, offset, bytes } })
    }
}

/// The shape of a dataset, while its layout is read.
struct Shaped {
    shape: Vec<u64>,
    max_shape: Vec<u64>,
    element_bytes: u64,
    bytes: u64,
}

impl Shaped {
    /// The places of the bytes by a layout message.
    fn layout(
        &self,
        file: &File<'_, '_>,
        message: &Message,
        filters: Vec<Filter>,
        budget: &mut Budget,
    ) -> Result<std::result::Result<Data, String>> {
        let mut rest = message.bytes();
        let version = rest.u8()?;
        let class = match version {
            3..=5 => rest.u8()?,
            1 | 2 => return Ok(Err(format!("has a layout of version {version}"))),
            other => return Err(AnamnesisError::parse(format!("a layout has version {other}"))),
        };
        let stored = |bytes: u64| match bytes == self.bytes {
            true => Ok(()),
            false => Err(AnamnesisError::parse(format!("a dataset of {} bytes takes {bytes}", self.bytes))),
        };
        match class {
            0 => {
                stored(rest.u16()?.into())?;
                let offset = file.offset(message.address + rest.taken as u64, self.bytes)?;
                Ok(Ok(Data::At(file.start() + offset)))
            }
            1 => {
                let (address, bytes) = (rest.u64()?, rest.u64()?);
                let Some(address) = defined(address) else { return Ok(Ok(Data::Chunks(Vec::new()))) };
                stored(bytes)?;
                Ok(Ok(Data::At(file.start() + file.offset(address, bytes)?)))
            }
            2 => self.chunked(file, version, rest, filters, budget),
            3 => Ok(Err("is made of other datasets".to_owned())),
            other => Err(AnamnesisError::parse(format!("a layout has class {other}"))),
        }
    }

    fn chunked(
        &self,
        file: &File<'_, '_>,
        version: u8,
        mut rest: Bytes<'_>,
        filters: Vec<Filter>,
        budget: &mut Budget,
    ) -> Result<std::result::Result<Data, String>> {
        let is_first = version == 3;
        let flags = if is_first { 0 } else { rest.u8()? };
        let rank = usize::from(rest.u8()?);
        if rank != self.shape.len() + 1 {
            return Err(AnamnesisError::parse(format!(
                "chunks of {rank} dimensions, {} + 1 are needed",
                self.shape.len()
            )));
        }
        let address = if is_first { rest.u64()? } else { 0 };
        let width = if is_first { 4 } else { usize::from(rest.u8()?) };
        let mut chunk = Vec::with_capacity(rank);
        for _ in 0..rank {
            chunk.push(rest.number(width)?);
        }
        if chunk.pop() != Some(self.element_bytes) || chunk.contains(&0) {
            return Err(AnamnesisError::parse("chunks have another type than their dataset"));
        }
        let (index, address) = match is_first {
            true => (Index::Tree, address),
            false => {
                let kind = rest.u8()?;
                let index = match kind {
                    1 if flags & 2 != 0 => Index::Single { stored_bytes: Some(rest.u64()?), mask: rest.u32()? },
                    1 => Index::Single { stored_bytes: None, mask: 0 },
                    2 => Index::Implicit,
                    3 => rest.take(1).map(|_| Index::FixedArray)?,
                    4 => rest.take(5).map(|_| Index::ExtensibleArray)?,
                    5 => rest.take(6).map(|_| Index::SecondTree)?,
                    other => return Ok(Err(format!("has a chunk index of kind {other}"))),
                };
                (index, rest.u64()?)
            }
        };
        let grid = Grid {
            shape: self.shape.clone(),
            max_shape: self.max_shape.clone(),
            chunk,
            element_bytes: self.element_bytes,
            has_filters: !filters.is_empty(),
        };
        let bytes = grid.chunk_bytes().ok_or_else(|| AnamnesisError::parse("a chunk has more than 2^64 bytes"))?;
        if grid.has_filters && bytes > MAX_CHUNK_BYTES {
            let why = format!("a chunk of {bytes} bytes, {MAX_CHUNK_BYTES} are allowed");
            return Err(AnamnesisError::limit("MAX_CHUNK_BYTES", why));
        }
        let filters: Arc<[Filter]> = filters.into();
        let mut pieces = Vec::new();
        for found in grid.chunks(file, &index, address)? {
            budget.working_set((size_of::<(Piece, Option<Filtered>)>() + 16 * rank) as u64, "a chunk's entry")?;
            let start = found.place.iter().zip(&grid.chunk).map(|(place, size)| place.checked_mul(*size));
            let Some(start) = start.collect::<Option<Vec<u64>>>() else { continue };
            let stored_bytes = found.stored_bytes.unwrap_or(bytes);
            let offset = file.start() + file.offset(found.address, stored_bytes)?;
            let piece = Piece { offsets: start, sizes: grid.chunk.clone(), at: offset };
            let filtered = found.stored_bytes.map(|stored_bytes| Filtered {
                start: offset,
                stored_bytes,
                bytes,
                filters: filters.clone(),
                mask: found.mask,
            });
            if let Some(filtered) = &filtered {
                budget.growth(stored_bytes, bytes, "a chunk")?;
                // Deflate and checksums make data hardly longer.
                if !filtered.is_possible() || stored_bytes > bytes.saturating_mul(2) + 1024 {
                    return Err(AnamnesisError::parse(format!(
                        "{stored_bytes} bytes cannot become a chunk of {bytes}"
                    )));
                }
            }
            pieces.push((piece, filtered));
        }
        Ok(Ok(Data::Chunks(pieces)))
    }
}

/// The shape and the limits of a dataspace; `None` if it has no elements by definition.
fn dataspace(content: &[u8]) -> Result<Option<(Vec<u64>, Vec<u64>)>> {
    let mut rest = Bytes::new(content);
    let (version, rank, flags) = (rest.u8()?, rest.u8()?, rest.u8()?);
    match version {
        1 => drop(rest.take(5)?),
        2 if rest.u8()? == 2 => return Ok(None),
        2 => {}
        other => return Err(AnamnesisError::parse(format!("a dataspace has version {other}"))),
    }
    if rank > MAX_RANK {
        return Err(AnamnesisError::parse(format!("a dataset has {rank} dimensions, {MAX_RANK} are allowed")));
    }
    let mut sizes = || (0..rank).map(|_| rest.u64()).collect::<Result<Vec<u64>>>();
    let shape = sizes()?;
    let max_shape = if flags & 1 == 0 { shape.clone() } else { sizes()? };
    Ok(Some((shape, max_shape)))
}

/// The fill value of a message; empty for zeros.
fn fill(content: &[u8], element_bytes: u64) -> Result<Vec<u8>> {
    let mut rest = Bytes::new(content);
    let version = rest.u8()?;
    match version {
        1 | 2 => {
            rest.take(2)?;
            match rest.u8()? {
                0 if version == 2 => Ok(Vec::new()),
                _ => sized(&mut rest, element_bytes),
            }
        }
        3 => match rest.u8()? & 0x20 {
            0 => Ok(Vec::new()),
            _ => sized(&mut rest, element_bytes),
        },
        other => Err(AnamnesisError::parse(format!("a fill value has version {other}"))),
    }
}

fn sized(rest: &mut Bytes<'_>, element_bytes: u64) -> Result<Vec<u8>> {
    match u64::from(rest.u32()?) {
        0 => Ok(Vec::new()),
        bytes if bytes == element_bytes => Ok(rest.take(bytes as usize)?.to_vec()),
        bytes => Err(AnamnesisError::parse(format!("a fill value has {bytes} bytes, an element {element_bytes}"))),
    }
}
