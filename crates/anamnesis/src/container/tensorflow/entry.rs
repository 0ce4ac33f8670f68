//! The entries of a checkpoint's index: small Protocol Buffers messages.
//!
//! | message | fields |
//! |---|---|
//! | header, key `""` | 1 number of data files, 2 byte order (0 little), 3 version |
//! | entry | 1 type, 2 shape {2 dimension {1 size}, 3 unknown rank}, 3 data file, 4 offset, 5 size, 6 masked CRC-32C, 7 slices |
//! | slice | 1 extent {1 start, 2 length}; all of a dimension if there is no length |

use crate::catalog::Dtype;
use crate::container::protobuf::{Field, Fields};
use crate::error::{AnamnesisError, Result};

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    pub(super) files: u32,
    pub(super) is_big_endian: bool,
}

/// A tensor, or one slice of a partitioned tensor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Entry {
    pub(super) kind: u64,
    pub(super) shape: Vec<u64>,
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Masked.
    pub(super) crc: Option<u32>,
    pub(super) slices: Vec<Vec<Extent>>,
}

/// A slice of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    pub(super) start: u64,
    /// `None` for all of it.
    pub(super) length: Option<u64>,
}

const MAX_RANK: usize = 254;

/// A dimension, an offset or a length, none of which is negative.
fn whole(number: u64) -> Result<u64> {
    match i64::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(AnamnesisError::parse(format!("a size is {}", number.cast_signed()))),
    }
}

fn small(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| AnamnesisError::parse(format!("a number is {}", number.cast_signed())))
}

impl Header {
    pub(super) fn parse(message: &[u8]) -> Result<Self> {
        let (mut header, mut fields) = (Self::default(), Fields::new(message));
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Varint(files)) => header.files = small(files)?,
                (2, Field::Varint(order)) => header.is_big_endian = order != 0,
                _ => {}
            }
        }
        Ok(header)
    }
}

impl Entry {
    pub(super) fn parse(message: &[u8]) -> Result<Self> {
        let (mut entry, mut fields) = (Self::default(), Fields::new(message));
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Varint(kind)) => entry.kind = kind,
                (2, Field::Bytes(shape)) => entry.add_shape(shape)?,
                (3, Field::Varint(file)) => entry.file = small(file)?,
                (4, Field::Varint(offset)) => entry.offset = whole(offset)?,
                (5, Field::Varint(bytes)) => entry.bytes = whole(bytes)?,
                (6, Field::Fixed32(crc)) => entry.crc = Some(u32::from_le_bytes(crc)),
                (7, Field::Bytes(slice)) => entry.slices.push(extents(slice)?),
                _ => {}
            }
        }
        Ok(entry)
    }

    fn add_shape(&mut self, message: &[u8]) -> Result<()> {
        let mut fields = Fields::new(message);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (2, Field::Bytes(dimension)) => {
                    let (mut size, mut fields) = (0, Fields::new(dimension));
                    while let Some((number, field)) = fields.next()? {
                        if let (1, Field::Varint(value)) = (number, field) {
                            size = whole(value)?;
                        }
                    }
                    self.shape.push(size);
                }
                (3, Field::Varint(1)) => return Err(AnamnesisError::parse("its rank is unknown")),
                _ => {}
            }
        }
        match self.shape.len() > MAX_RANK {
            true => Err(AnamnesisError::parse(format!("it has {} dimensions", self.shape.len()))),
            false => Ok(()),
        }
    }
}

fn extents(message: &[u8]) -> Result<Vec<Extent>> {
    let (mut extents, mut fields) = (Vec::new(), Fields::new(message));
    while let Some((number, field)) = fields.next()? {
        if let (1, Field::Bytes(message)) = (number, field) {
            let (mut extent, mut fields) = (Extent::default(), Fields::new(message));
            while let Some((number, field)) = fields.next()? {
                match (number, field) {
                    (1, Field::Varint(start)) => extent.start = whole(start)?,
                    (2, Field::Varint(length)) => extent.length = Some(whole(length)?),
                    _ => {}
                }
            }
            extents.push(extent);
        }
    }
    Ok(extents)
}

/// The dtype of a type number, or its name if it is not read.
pub(super) fn dtype(kind: u64) -> std::result::Result<Dtype, String> {
    Ok(match kind {
        1 => Dtype::F32,
        2 => Dtype::F64,
        3 => Dtype::I32,
        4 => Dtype::U8,
        5 => Dtype::I16,
        6 => Dtype::I8,
        8 => Dtype::C64,
        9 => Dtype::I64,
        10 => Dtype::Bool,
        14 => Dtype::BF16,
        17 => Dtype::U16,
        19 => Dtype::F16,
        22 => Dtype::U32,
        23 => Dtype::U64,
        24 => Dtype::F8E5M2,
        25 => Dtype::F8E4M3,
        other => {
            return Err(match other {
                7 => "DT_STRING".to_owned(),
                11..=13 | 15 | 16 => "a quantised type of TensorFlow 1".to_owned(),
                18 => "DT_COMPLEX128".to_owned(),
                20 => "DT_RESOURCE".to_owned(),
                21 => "DT_VARIANT".to_owned(),
                29 | 30 => "four-bit integers".to_owned(),
                _ => format!("type number {other}"),
            });
        }
    })
}
