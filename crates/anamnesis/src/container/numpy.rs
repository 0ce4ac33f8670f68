//! NumPy's type codes, shared by NPY headers and pickled arrays: a letter for the kind, then the bytes per element.

use crate::catalog::Dtype;

/// The supported type codes.
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

/// The dtype of a code without its byte-order character.
pub(crate) fn dtype_of(code: &str) -> Option<Dtype> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype)
}

/// Why numbers of this code are not supported; `None` for supported codes and for codes of other things.
pub(crate) fn unread_numbers(code: &str) -> Option<&'static str> {
    match code.as_bytes() {
        b"c16" | b"c24" | b"c32" => Some("complex numbers wider than two F32, which no tensor format has"),
        b"f10" | b"f12" | b"f16" | [b'g', ..] => Some("long doubles, which differ from machine to machine"),
        _ => None,
    }
}

/// The code without its byte-order character.
pub(crate) fn without_order(text: &str) -> &str {
    text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text)
}

/// Bytes that are swapped as a unit: the element, or each part of a complex number.
pub(crate) fn number_bytes(dtype: Dtype) -> usize {
    if dtype == Dtype::C64 { 4 } else { dtype.byte_size() }
}
