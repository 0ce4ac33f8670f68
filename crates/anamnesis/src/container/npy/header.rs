//! The header of an array: shape, order and element type.

use super::descr::Element;
use super::literal::{Literal, parse_dictionary};
use crate::catalog::dtype::elements;
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result, printable, quoted};
use crate::limits::Budget;

/// Maximum header length in bytes.
pub(crate) const NPY_MAX_HEADER_BYTES: u64 = 1 << 20;
/// Maximum number of dimensions.
pub(crate) const NPY_MAX_DIMS: usize = 64;

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes of the first read; nearly every header fits.
const FIRST_READ_BYTES: u64 = 256;

/// A validated header: the elements fill the rest of the file exactly.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub element: Element,
    pub shape: Vec<usize>,
    pub fortran_order: bool,
    /// Offset of the elements.
    pub data_offset: u64,
    pub data_bytes: u64,
}

impl Header {
    /// Reads the header of the array `name`, whose file has `file_bytes` bytes. `prefix` returns its first bytes.
    pub(super) fn read(
        name: &str,
        file_bytes: u64,
        options: &OpenOptions,
        budget: &mut Budget,
        prefix: impl Fn(u64) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let mut bytes = prefix(FIRST_READ_BYTES)?;
        let end = locate_header_text(name, &bytes)?;
        if end.text_bytes > NPY_MAX_HEADER_BYTES {
            let message = format!(
                "array {} has a header of {} bytes, {NPY_MAX_HEADER_BYTES} are allowed",
                quoted(name),
                end.text_bytes
            );
            return Err(AnamnesisError::limit("NPY_MAX_HEADER_BYTES", message));
        }
        budget.buffer(end.text_bytes, "an NPY header")?;
        let data_offset = end.start + end.text_bytes;
        if data_offset > file_bytes {
            return Err(malformed(
                name,
                &format!("its header ends at byte {data_offset}, the array has {file_bytes} bytes"),
            ));
        }
        if data_offset > bytes.len() as u64 {
            bytes = prefix(data_offset)?;
        }
        let text = bytes.get(end.start as usize..data_offset as usize).unwrap_or_default();
        // Before version 3 the text is Latin-1.
        let text = match (end.is_utf8, str::from_utf8(text)) {
            (_, Ok(text)) => text.to_owned(),
            (false, Err(_)) => text.iter().copied().map(char::from).collect(),
            (true, Err(error)) => return Err(malformed(name, &format!("its header is not UTF-8: {error}"))),
        };
        Self::parse(name, &text, data_offset, file_bytes - data_offset, options)
    }

    fn parse(name: &str, text: &str, data_offset: u64, data_bytes: u64, options: &OpenOptions) -> Result<Self> {
        let entries = parse_dictionary(text).map_err(|error| match error {
            AnamnesisError::Parse { reason } => malformed(name, &format!("its header is malformed: {reason}")),
            other => other,
        })?;
        let [mut descr, mut order, mut shape] = [None, None, None];
        for (key, value) in entries {
            let place = match key.as_str() {
                "descr" => &mut descr,
                "fortran_order" => &mut order,
                "shape" => &mut shape,
                other => return Err(malformed(name, &format!("its header has an unknown key {}", quoted(other)))),
            };
            if place.replace(value).is_some() {
                return Err(malformed(name, &format!("its header has {} twice", quoted(&key))));
            }
        }
        let (Some(descr), Some(order), Some(shape)) = (descr, order, shape) else {
            return Err(malformed(name, "its header lacks one of descr, fortran_order and shape"));
        };
        let Literal::Bool(fortran_order) = order else {
            return Err(malformed(name, &format!("fortran_order is neither True nor False but {}", shown(&order))));
        };
        let shape = dimensions(name, &shape)?;
        let dtype_override = options.npy_dtypes.iter().rev().find(|(array, _)| array == name).map(|(_, dtype)| *dtype);
        let element = Element::new(name, &descr, dtype_override)?;
        let needed = elements(&shape).and_then(|count| element.dtype.byte_len(count));
        if needed != Some(data_bytes) {
            let needed = needed.map_or_else(|| String::from("more than 2^64"), |bytes| bytes.to_string());
            let why = format!("{} {shape:?} takes {needed} bytes, {data_bytes} are there", element.dtype);
            return Err(malformed(name, &why));
        }
        Ok(Self { element, shape, fortran_order, data_offset, data_bytes })
    }

    /// Whether the elements have to be reordered into C order.
    pub(super) fn needs_reordering(&self) -> bool {
        self.fortran_order && self.shape.iter().filter(|&&size| size > 1).count() > 1
    }

    /// Strides of the axes, in elements.
    pub(super) fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1u64; self.shape.len()];
        let mut distance = 1u64;
        let mut step = |(stride, &size): (&mut u64, &usize)| {
            *stride = distance;
            distance = distance.saturating_mul(size as u64);
        };
        if self.fortran_order {
            strides.iter_mut().zip(&self.shape).for_each(&mut step);
        } else {
            strides.iter_mut().zip(&self.shape).rev().for_each(&mut step);
        }
        strides
    }
}

/// The position of the header's text.
struct HeaderText {
    start: u64,
    text_bytes: u64,
    is_utf8: bool,
}

fn locate_header_text(name: &str, bytes: &[u8]) -> Result<HeaderText> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(malformed(name, "it does not start with the NPY magic"));
    };
    match *rest {
        [1, 0, a, b, ..] => {
            Ok(HeaderText { start: 10, text_bytes: u64::from(u16::from_le_bytes([a, b])), is_utf8: false })
        }
        [version @ (2 | 3), 0, a, b, c, d, ..] => {
            Ok(HeaderText { start: 12, text_bytes: u64::from(u32::from_le_bytes([a, b, c, d])), is_utf8: version == 3 })
        }
        [1..=3, 0, ..] | [] | [_] => Err(malformed(name, "it ends inside the length of its header")),
        [major, minor, ..] => {
            let detail = format!("array {} has version {major}.{minor}, 1.0 to 3.0 are supported", quoted(name));
            Err(AnamnesisError::unsupported("NPY", detail))
        }
    }
}

fn dimensions(name: &str, shape: &Literal) -> Result<Vec<usize>> {
    let Literal::Tuple(sizes) = shape else {
        return Err(malformed(name, &format!("its shape is not a tuple but {}", shown(shape))));
    };
    if sizes.len() > NPY_MAX_DIMS {
        let message = format!("array {} has {} dimensions, {NPY_MAX_DIMS} are allowed", quoted(name), sizes.len());
        return Err(AnamnesisError::limit("NPY_MAX_DIMS", message));
    }
    let size = |literal: &Literal| match literal {
        Literal::Number(size) => usize::try_from(*size).ok(),
        _ => None,
    };
    let sizes = sizes.iter().map(|literal| size(literal).ok_or(literal)).collect::<std::result::Result<_, _>>();
    sizes.map_err(|literal| malformed(name, &format!("its shape has a size of {}", shown(literal))))
}

fn malformed(name: &str, why: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("array {}: {why}", quoted(name)))
}

fn shown(literal: &Literal) -> String {
    printable(&literal.to_string(), 80)
}
