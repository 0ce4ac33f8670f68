//! Elements of fewer than eight bits: integers as bytes, floats as F32. They are packed from the lowest bit of the first
//! byte on, without gaps between rows.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::Result;
use crate::io::{Region, Source};

/// The elements of a tensor, one by one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unpacked {
    /// Offset of the packed bytes.
    pub(super) base: u64,
    pub(super) elements: u64,
    /// Bits from one element to the next.
    pub(super) stride: u32,
    pub(super) code: Code,
}

/// The meaning of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Code {
    Unsigned {
        bits: u32,
    },
    Signed {
        bits: u32,
    },
    /// A float without infinities and NaN.
    Float {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
}

/// Bytes that are unpacked at a time.
const PIECE_BYTES: u64 = 48 << 10;

impl Code {
    const fn bits(self) -> u32 {
        match self {
            Self::Unsigned { bits } | Self::Signed { bits } => bits,
            Self::Float { exponent_bits, mantissa_bits } => 1 + exponent_bits + mantissa_bits,
        }
    }

    /// Bytes of an element in the catalog.
    const fn bytes(self) -> u64 {
        match self {
            Self::Unsigned { .. } | Self::Signed { .. } => 1,
            Self::Float { .. } => 4,
        }
    }

    /// The bytes of every code.
    fn table(self) -> Vec<[u8; 4]> {
        let value = |code: u32| match self {
            Self::Unsigned { .. } => code.to_le_bytes(),
            Self::Signed { bits } => (code << (32 - bits)).cast_signed().wrapping_shr(32 - bits).to_le_bytes(),
            Self::Float { exponent_bits, mantissa_bits } => float(code, exponent_bits, mantissa_bits).to_le_bytes(),
        };
        (0..1 << self.bits()).map(value).collect()
    }
}

/// The value of a small float.
fn float(code: u32, exponent_bits: u32, mantissa_bits: u32) -> f32 {
    let mantissa = (code & ((1 << mantissa_bits) - 1)) as f32;
    let exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let unit = (mantissa_bits as f32).exp2().recip();
    let (fraction, power) = match exponent {
        0 => (mantissa * unit, 1 - bias),
        exponent => (1.0 + mantissa * unit, exponent.cast_signed() - bias),
    };
    let value = fraction * (power as f32).exp2();
    if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -value } else { value }
}

impl Unpacked {
    /// The packed bytes of a range of elements.
    fn packed(&self, elements: &Range<u64>) -> Range<u64> {
        let stride = u64::from(self.stride);
        self.base + elements.start * stride / 8..self.base + (elements.end * stride).div_ceil(8)
    }

    /// Unpacks elements, whose first one begins in the first byte.
    fn unpack(&self, packed: &[u8], first: u64, table: &[[u8; 4]], out: &mut [u8]) {
        let (stride, bits) = (u64::from(self.stride), self.code.bits());
        let width = self.code.bytes() as usize;
        let start = first * stride / 8 * 8;
        for (place, element) in out.chunks_exact_mut(width).zip(first..) {
            let at = element * stride - start;
            let byte = |index: u64| u32::from(packed.get(index as usize).copied().unwrap_or_default());
            let word = byte(at / 8) | byte(at / 8 + 1) << 8;
            let code = word >> (at % 8) & ((1 << bits) - 1);
            place.copy_from_slice(&table[code as usize][..width]);
        }
    }
}

impl Region for Unpacked {
    fn len(&self) -> u64 {
        self.elements * self.code.bytes()
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let width = self.code.bytes();
        let table = self.code.table();
        let (end, per_piece) = (offset + buffer.len() as u64, PIECE_BYTES * 8 / u64::from(self.stride));
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let mut at = offset;
        let mut rest = buffer;
        while at < end {
            let first = at / width;
            let elements = first..end.div_ceil(width).min(first + per_piece);
            let stored = self.packed(&elements);
            packed.resize((stored.end - stored.start) as usize, 0);
            below.read_at(stored.start, &mut packed)?;
            unpacked.resize(((elements.end - elements.start) * width) as usize, 0);
            self.unpack(&packed, elements.start, &table, &mut unpacked);
            let skipped = (at - first * width) as usize;
            let count = rest.len().min(unpacked.len() - skipped);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&unpacked[skipped..skipped + count]);
            (at, rest) = (at + count as u64, later);
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        let Self { elements, stride, code, .. } = self;
        ("unpacked", &range, elements, stride, code).hash(&mut hasher);
        below.identify(self.packed(&(0..*elements)), hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{ArrangedSource, BytesSource};

    fn all(stored: &[u8], elements: u64, stride: u32, code: Code) -> Vec<u8> {
        let mut source = ArrangedSource::new(Box::new(BytesSource(stored.to_vec())));
        let start = source.add(Box::new(Unpacked { base: 0, elements, stride, code })).unwrap();
        let whole = source.view(start..source.len()).unwrap().into_owned();
        for from in 0..whole.len() {
            for to in from..whole.len() {
                let part = source.view(start + from as u64..start + to as u64).unwrap();
                assert_eq!(&*part, &whole[from..to], "{from}..{to}");
            }
        }
        whole
    }

    #[test]
    fn elements_are_taken_from_the_lowest_bit_on() {
        assert_eq!(all(&[0x21, 0xf3], 3, 4, Code::Unsigned { bits: 4 }), [1, 2, 3]);
        assert_eq!(all(&[0x8f], 2, 4, Code::Signed { bits: 4 }), [0xff, 0xf8]);
        assert_eq!(all(&[0b1110_0100, 2], 5, 2, Code::Unsigned { bits: 2 }), [0, 1, 2, 3, 2]);
        assert_eq!(all(&[0b1110_0100], 4, 2, Code::Signed { bits: 2 }), [0, 1, 0xfe, 0xff]);
    }

    #[test]
    fn small_floats_have_the_values_of_their_formats() {
        let floats =
            |bytes: &[u8]| -> Vec<f32> { bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect() };
        let e2m3 = Code::Float { exponent_bits: 2, mantissa_bits: 3 };
        // Codes 1, 8, 31 and 63 in three bytes.
        let packed = 1u32 | 8 << 6 | 31 << 12 | 63 << 18;
        assert_eq!(floats(&all(&packed.to_le_bytes()[..3], 4, 6, e2m3)), [0.125, 1.0, 7.5, -7.5]);
        let e3m2 = Code::Float { exponent_bits: 3, mantissa_bits: 2 };
        assert_eq!(floats(&all(&[1, 12, 31, 32], 4, 8, e3m2)), [0.0625, 1.0, 28.0, -0.0]);
        let e2m1 = Code::Float { exponent_bits: 2, mantissa_bits: 1 };
        assert_eq!(floats(&all(&[0x21, 0x0f], 3, 4, e2m1)), [0.5, 1.0, -6.0]);
    }
}
