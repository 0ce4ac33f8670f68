//! The element types of ONNX: their codes, their typed fields, and how they are presented.

use crate::catalog::Dtype;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: &'static str,
    /// Bits per element in raw data.
    pub(super) bits: u64,
    /// The typed field that stores it.
    pub(super) field: u64,
    /// The values that an entry of the typed field may have, if it is an integer.
    pub(super) least: i64,
    pub(super) most: i128,
    pub(super) form: Form,
}

/// How elements are presented in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// As they are stored.
    Stored(Dtype),
    /// Four-bit or two-bit integers as bytes.
    Bytes(Dtype),
    /// E2M1 floats, two in a byte.
    Float4,
    /// Six-bit floats as F32; the number of exponent bits.
    Float6 { exponent_bits: u32 },
    /// Not at all.
    None,
}

/// The typed fields.
pub(super) const FLOATS: u64 = 4;
pub(super) const INT32S: u64 = 5;
pub(super) const STRINGS: u64 = 6;
pub(super) const INT64S: u64 = 7;
pub(super) const DOUBLES: u64 = 10;
pub(super) const UINT64S: u64 = 11;

const fn row(name: &'static str, bits: u64, field: u64, least: i64, most: i128, form: Form) -> Element {
    Element { name, bits, field, least, most, form }
}

const fn plain(name: &'static str, bits: u64, field: u64, least: i64, most: i128, dtype: Dtype) -> Element {
    row(name, bits, field, least, most, Form::Stored(dtype))
}

const BYTE: i128 = u8::MAX as i128;
const WORD: i128 = u16::MAX as i128;

/// The types in the order of their codes, from 1 on.
const ELEMENTS: [Element; 28] = [
    plain("FLOAT", 32, FLOATS, 0, 0, Dtype::F32),
    plain("UINT8", 8, INT32S, 0, BYTE, Dtype::U8),
    plain("INT8", 8, INT32S, -128, 127, Dtype::I8),
    plain("UINT16", 16, INT32S, 0, WORD, Dtype::U16),
    plain("INT16", 16, INT32S, -32_768, 32_767, Dtype::I16),
    plain("INT32", 32, INT32S, i32::MIN as i64, i32::MAX as i128, Dtype::I32),
    plain("INT64", 64, INT64S, i64::MIN, i64::MAX as i128, Dtype::I64),
    row("STRING", 0, STRINGS, 0, 0, Form::None),
    plain("BOOL", 8, INT32S, 0, 1, Dtype::Bool),
    plain("FLOAT16", 16, INT32S, 0, WORD, Dtype::F16),
    plain("DOUBLE", 64, DOUBLES, 0, 0, Dtype::F64),
    plain("UINT32", 32, UINT64S, 0, u32::MAX as i128, Dtype::U32),
    plain("UINT64", 64, UINT64S, 0, u64::MAX as i128, Dtype::U64),
    plain("COMPLEX64", 64, FLOATS, 0, 0, Dtype::C64),
    row("COMPLEX128", 128, DOUBLES, 0, 0, Form::None),
    plain("BFLOAT16", 16, INT32S, 0, WORD, Dtype::BF16),
    plain("FLOAT8E4M3FN", 8, INT32S, 0, BYTE, Dtype::F8E4M3),
    plain("FLOAT8E4M3FNUZ", 8, INT32S, 0, BYTE, Dtype::F8E4M3Fnuz),
    plain("FLOAT8E5M2", 8, INT32S, 0, BYTE, Dtype::F8E5M2),
    plain("FLOAT8E5M2FNUZ", 8, INT32S, 0, BYTE, Dtype::F8E5M2Fnuz),
    row("UINT4", 4, INT32S, 0, BYTE, Form::Bytes(Dtype::U8)),
    row("INT4", 4, INT32S, 0, BYTE, Form::Bytes(Dtype::I8)),
    row("FLOAT4E2M1", 4, INT32S, 0, BYTE, Form::Float4),
    plain("FLOAT8E8M0", 8, INT32S, 0, BYTE, Dtype::F8E8M0),
    row("UINT2", 2, INT32S, 0, BYTE, Form::Bytes(Dtype::U8)),
    row("INT2", 2, INT32S, 0, BYTE, Form::Bytes(Dtype::I8)),
    row("FLOAT6E2M3", 6, INT32S, 0, 63, Form::Float6 { exponent_bits: 2 }),
    row("FLOAT6E3M2", 6, INT32S, 0, 63, Form::Float6 { exponent_bits: 3 }),
];

impl Element {
    /// The type with this code.
    pub(super) fn of(code: u64) -> Option<Self> {
        ELEMENTS.get(usize::try_from(code.checked_sub(1)?).ok()?).copied()
    }

    /// Bytes of raw data; `None` on overflow.
    pub(super) fn raw_bytes(&self, elements: u64) -> Option<u64> {
        Some(elements.checked_mul(self.bits)?.div_ceil(8))
    }

    /// Bytes of an entry of the typed field, as raw data.
    pub(super) fn entry_bytes(&self) -> u64 {
        match self.field {
            FLOATS => 4,
            DOUBLES => 8,
            _ => self.bits.div_ceil(8),
        }
    }

    /// Entries of the typed field; `None` on overflow.
    pub(super) fn entries(&self, elements: u64) -> Option<u64> {
        match self.bits {
            // One entry per element.
            6 => Some(elements),
            2 | 4 => self.raw_bytes(elements),
            bits => elements.checked_mul((bits / 8).checked_div(self.entry_bytes())?),
        }
    }
}
