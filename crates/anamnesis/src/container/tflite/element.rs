//! The element types of TensorFlow Lite, and four-bit integers as bytes.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::catalog::Dtype;
use crate::error::Result;
use crate::io::{Region, Source};

/// The types by their numbers; those without a dtype are not read.
const TYPES: [(&str, Option<Dtype>); 21] = [
    ("FLOAT32", Some(Dtype::F32)),
    ("FLOAT16", Some(Dtype::F16)),
    ("INT32", Some(Dtype::I32)),
    ("UINT8", Some(Dtype::U8)),
    ("INT64", Some(Dtype::I64)),
    ("STRING", None),
    ("BOOL", Some(Dtype::Bool)),
    ("INT16", Some(Dtype::I16)),
    ("COMPLEX64", Some(Dtype::C64)),
    ("INT8", Some(Dtype::I8)),
    ("FLOAT64", Some(Dtype::F64)),
    ("COMPLEX128", None),
    ("UINT64", Some(Dtype::U64)),
    ("RESOURCE", None),
    ("VARIANT", None),
    ("UINT32", Some(Dtype::U32)),
    ("UINT16", Some(Dtype::U16)),
    ("INT4", Some(Dtype::I8)),
    ("BFLOAT16", Some(Dtype::BF16)),
    ("INT2", None),
    ("UINT4", None),
];
const INT4: u8 = 17;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Element {
    pub(super) dtype: Dtype,
    /// Whether two elements share a byte, the first in its low half.
    pub(super) is_nibble: bool,
}

impl Element {
    /// The type of a number, or its name if it is not read.
    pub(super) fn of(number: u8) -> std::result::Result<Self, String> {
        match TYPES.get(usize::from(number)) {
            Some((_, Some(dtype))) => Ok(Self { dtype: *dtype, is_nibble: number == INT4 }),
            Some((name, None)) => Err((*name).to_owned()),
            None => Err(format!("number {number}")),
        }
    }

    /// Bytes of so many stored elements.
    pub(super) fn stored_bytes(self, elements: u64) -> Option<u64> {
        if self.is_nibble { Some(elements.div_ceil(2)) } else { self.dtype.byte_len(elements) }
    }
}

/// Four-bit integers in two's complement, presented as I8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Nibbles {
    /// The offset of the first byte.
    pub(super) start: u64,
    pub(super) count: u64,
}

impl Nibbles {
    fn stored(&self, range: &Range<u64>) -> Range<u64> {
        self.start + range.start / 2..self.start + range.end.div_ceil(2)
    }
}

impl Region for Nibbles {
    fn len(&self) -> u64 {
        self.count
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let stored = self.stored(&(offset..offset + buffer.len() as u64));
        let bytes = (stored.end - stored.start) as usize;
        let is_odd = offset % 2 == 1;
        let mut packed = vec![0; bytes];
        below.read_at(stored.start, &mut packed)?;
        for (out, at) in buffer.iter_mut().zip(usize::from(is_odd)..) {
            let byte = packed.get(at / 2).copied().unwrap_or_default();
            let nibble = if at % 2 == 0 { byte << 4 } else { byte & 0xf0 };
            *out = (nibble.cast_signed() >> 4).cast_unsigned();
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        (*self, &range).hash(&mut hasher);
        below.identify(self.stored(&range), hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    #[test]
    fn nibbles_are_signed_and_low_first_from_any_offset() {
        let source = BytesSource([0xff, 0x21, 0x8f, 0x07]);
        let nibbles = Nibbles { start: 1, count: 5 };
        let values = [1i8, 2, -1, -8, 7].map(i8::cast_unsigned);
        for start in 0..5 {
            for end in start..=5 {
                let mut out = vec![0; end - start];
                nibbles.read_at(&source, start as u64, &mut out).unwrap();
                assert_eq!(out, values[start..end], "{start}..{end}");
            }
        }
    }
}
