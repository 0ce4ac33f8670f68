//! Arrays: their types, and how their bytes are presented.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, Extent, StoredTensor};
use crate::container::pieces::{Assembled, Piece};
use crate::error::Result;
use crate::io::{ArrangedSource, Region, Source};

/// An element type: its dtype, and whether only the low half of each byte counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) dtype: Dtype,
    pub(super) is_nibble: bool,
}

impl Element {
    /// The type of a name of NumPy or `ml_dtypes`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let dtype = match name {
            "float32" => Dtype::F32,
            "float64" => Dtype::F64,
            "float16" => Dtype::F16,
            "bfloat16" => Dtype::BF16,
            "int8" | "int4" => Dtype::I8,
            "uint8" | "uint4" => Dtype::U8,
            "int16" => Dtype::I16,
            "uint16" => Dtype::U16,
            "int32" => Dtype::I32,
            "uint32" => Dtype::U32,
            "int64" => Dtype::I64,
            "uint64" => Dtype::U64,
            "bool" => Dtype::Bool,
            "complex64" => Dtype::C64,
            "float8_e4m3fn" => Dtype::F8E4M3,
            "float8_e5m2" => Dtype::F8E5M2,
            "float8_e4m3fnuz" => Dtype::F8E4M3Fnuz,
            "float8_e5m2fnuz" => Dtype::F8E5M2Fnuz,
            "float8_e8m0fnu" => Dtype::F8E8M0,
            _ => return None,
        };
        Some(Self { dtype, is_nibble: matches!(name, "int4" | "uint4") })
    }
}

/// An array of a file. The sizes of its pieces are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
    /// The offsets and sizes of its bytes, in order.
    pub(super) pieces: Vec<(u64, u64)>,
}

impl Array {
    /// The stored tensor, and the regions that present it in `arranged`.
    pub(super) fn arrange(self, name: String, file: u32, arranged: &mut ArrangedSource) -> Result<StoredTensor> {
        let Self { element, shape, pieces } = self;
        let bytes = elements(&shape).and_then(|elements| element.dtype.byte_len(elements)).unwrap_or_default();
        let mut offset = match pieces[..] {
            [] => 0,
            [(offset, _)] => offset,
            _ => {
                let mut start = 0;
                let piece = |&(at, bytes): &(u64, u64)| {
                    start += bytes;
                    Piece { offsets: vec![start - bytes], sizes: vec![bytes], at }
                };
                let pieces = pieces.iter().filter(|(_, bytes)| *bytes > 0).map(piece).collect();
                arranged.add(Box::new(Assembled::new(&[bytes], 1, pieces)?))?
            }
        };
        if element.is_nibble && bytes > 0 {
            let is_signed = element.dtype == Dtype::I8;
            offset = arranged.add(Box::new(LowNibbles { start: offset, bytes, is_signed }))?;
        }
        Ok(StoredTensor { name, dtype: element.dtype, shape, extent: Extent { file, offset, bytes } })
    }
}

/// Bytes of which the low half counts, as whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LowNibbles {
    start: u64,
    bytes: u64,
    is_signed: bool,
}

impl Region for LowNibbles {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        below.read_at(self.start + offset, buffer)?;
        for byte in buffer {
            *byte = match self.is_signed {
                true => ((*byte << 4).cast_signed() >> 4).cast_unsigned(),
                false => *byte & 15,
            };
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        self.is_signed.hash(&mut hasher);
        below.identify(self.start + range.start..self.start + range.end, hasher);
    }
}
