//! Element types by the names of torch: as a dtype and as a storage class.

use crate::catalog::Dtype;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its name in torch, without `torch.`.
    pub(crate) name: &'static str,
    /// Bytes per element.
    pub(crate) bytes: u64,
    /// The corresponding dtype; `None` if unsupported.
    pub(crate) dtype: Option<Dtype>,
}

/// dtype, its alias, storage class, bytes per element, and the dtype of the catalog.
const ELEMENTS: &[(&str, &str, &str, u64, Option<Dtype>)] = &[
    ("float32", "float", "FloatStorage", 4, Some(Dtype::F32)),
    ("float64", "double", "DoubleStorage", 8, Some(Dtype::F64)),
    ("float16", "half", "HalfStorage", 2, Some(Dtype::F16)),
    ("bfloat16", "", "BFloat16Storage", 2, Some(Dtype::BF16)),
    ("int64", "long", "LongStorage", 8, Some(Dtype::I64)),
    ("int32", "int", "IntStorage", 4, Some(Dtype::I32)),
    ("int16", "short", "ShortStorage", 2, Some(Dtype::I16)),
    ("int8", "", "CharStorage", 1, Some(Dtype::I8)),
    ("uint8", "", "ByteStorage", 1, Some(Dtype::U8)),
    ("bool", "", "BoolStorage", 1, Some(Dtype::Bool)),
    ("complex64", "cfloat", "ComplexFloatStorage", 8, Some(Dtype::C64)),
    ("complex128", "cdouble", "ComplexDoubleStorage", 16, None),
    ("complex32", "chalf", "", 4, None),
    ("quint8", "", "QUInt8Storage", 1, None),
    ("qint8", "", "QInt8Storage", 1, None),
    ("qint32", "", "QInt32Storage", 4, None),
    ("quint4x2", "", "QUInt4x2Storage", 1, None),
    ("quint2x4", "", "QUInt2x4Storage", 1, None),
    ("float8_e4m3fn", "", "", 1, Some(Dtype::F8E4M3)),
    ("float8_e5m2", "", "", 1, Some(Dtype::F8E5M2)),
    ("float8_e4m3fnuz", "", "", 1, Some(Dtype::F8E4M3Fnuz)),
    ("float8_e5m2fnuz", "", "", 1, Some(Dtype::F8E5M2Fnuz)),
    ("float8_e8m0fnu", "", "", 1, Some(Dtype::F8E8M0)),
    // Two elements per byte, counted as one by the shape.
    ("float4_e2m1fn_x2", "", "", 1, None),
    ("uint16", "", "", 2, Some(Dtype::U16)),
    ("uint32", "", "", 4, Some(Dtype::U32)),
    ("uint64", "", "", 8, Some(Dtype::U64)),
    ("bits8", "", "", 1, None),
    ("bits16", "", "", 2, None),
    ("bits1x8", "", "", 1, None),
    ("bits2x4", "", "", 1, None),
    ("bits4x2", "", "", 1, None),
];

fn find(matches: impl Fn(&(&str, &str, &str, u64, Option<Dtype>)) -> bool) -> Option<Element> {
    let &(name, _, _, bytes, dtype) = ELEMENTS.iter().find(|row| matches(row))?;
    Some(Element { name, bytes, dtype })
}

/// The element type of a storage class.
pub(crate) fn of_storage(class: &str) -> Option<Element> {
    find(|row| !row.2.is_empty() && row.2 == class)
}

/// The element type of a torch dtype.
pub(crate) fn of_dtype(name: &str) -> Option<Element> {
    find(|row| row.0 == name || (!row.1.is_empty() && row.1 == name))
}

/// The element type of untyped storages.
pub(crate) const BYTE: Element = Element { name: "uint8", bytes: 1, dtype: Some(Dtype::U8) };
