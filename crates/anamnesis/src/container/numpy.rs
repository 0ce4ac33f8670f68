//! NumPy's codes of element types, which NPY headers and pickled arrays share: a letter for the kind, and bytes.

use crate::catalog::Dtype;

/// The codes of the types that are read.
pub(crate) const CODES: [(&str, Dtype); 13] = [
    ("b1", Dtype::Bool),
    ("u1", Dtype::U8),
    ("i1", Dtype::I8),
    ("u2", Dtype::U16),
    ("i2", Dtype::I16),
    ("u4", Dtype::U32),
    ("i4", Dtype::I32),
    ("u8", Dtype::U64),
    ("i8", Dtype::I64),
    ("f2", Dtype::F16),
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("c8", Dtype::C64),
];

/// The type of a code without its byte order.
pub(crate) fn dtype_of(code: &str) -> Option<Dtype> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype)
}

/// Why numbers of a code are not read; `None` where it is no code of numbers, or one that is read.
pub(crate) fn unread_numbers(code: &str) -> Option<&'static str> {
    match code.as_bytes() {
        b"c16" | b"c24" | b"c32" => Some("complex numbers wider than two F32, which no tensor format has"),
        b"f10" | b"f12" | b"f16" | [b'g', ..] => Some("long doubles, which differ from machine to machine"),
        _ => None,
    }
}

/// The code behind the byte order.
pub(crate) fn without_order(text: &str) -> &str {
    text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text)
}

/// The width of the numbers whose bytes stand in one order or the other: of each part, where they are complex.
pub(crate) fn number_bytes(dtype: Dtype) -> usize {
    if dtype == Dtype::C64 { 4 } else { dtype.byte_size() }
}
