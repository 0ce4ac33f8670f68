//! The header of a stored tensor: its name, type and shape, and where its values are.

use std::ops::Range;

use super::element::{DOUBLES, FLOATS, INT32S, INT64S, STRINGS, UINT64S};
use super::limits::ONNX_MAX_DIMS;
use super::reader::{Message, Reader, wrong_type};
use crate::container::protobuf::Field;
use crate::error::{AnamnesisError, Result};

/// A tensor before its values are located.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    /// The code of its element type.
    pub(super) data_type: u64,
    pub(super) data: Data,
    /// The message, which contains typed data.
    pub(super) message: Message,
}

/// Where the values of a tensor are.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// There are none.
    Missing,
    /// In the file.
    Raw(Range<u64>),
    /// In the file, as entries of this field.
    Typed(u64),
    /// In another file.
    External(Box<External>),
}

/// A range of another file.
#[derive(Debug, Clone, Default)]
pub(super) struct External {
    pub(super) location: String,
    pub(super) offset: u64,
    /// `None` for all bytes up to the end of the file.
    pub(super) length: Option<u64>,
}

/// A sparse tensor: the values at some indices.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    pub(super) values: Tensor,
    pub(super) indices: Tensor,
    pub(super) dims: Vec<u64>,
}

const DIMS: u64 = 1;
const EXTERNAL: u64 = 1;

impl Tensor {
    /// Reads the header of a tensor.
    pub(super) fn read(reader: &Reader<'_>, message: Message) -> Result<Self> {
        let (mut name, mut dims, mut data_type) = (None, Vec::new(), 0);
        let (mut raw, mut is_external, mut external) = (None, false, Vec::new());
        let mut typed = Vec::new();
        reader.each(&message, |number, field| {
            match (number, field) {
                (DIMS, field) => push_dims(reader, field, &mut dims)?,
                (2, Field::Varint(code)) => data_type = code,
                (3, Field::Bytes(_)) => {
                    return Err(AnamnesisError::unsupported("onnx", "tensors that are stored in segments"));
                }
                (FLOATS | INT32S | STRINGS | INT64S | DOUBLES | UINT64S, field) => {
                    let is_empty = matches!(&field, Field::Bytes(range) if range.is_empty() && number != STRINGS);
                    if !is_empty && !typed.contains(&number) {
                        typed.push(number);
                    }
                }
                (8, Field::Bytes(text)) => name = Some(text),
                (9, Field::Bytes(bytes)) => raw = Some(bytes),
                (13, Field::Bytes(entry)) if external.len() < MAX_PROPERTIES => external.push(entry),
                (13, Field::Bytes(_)) => {
                    let why = format!("external data of a tensor has more than {MAX_PROPERTIES} properties");
                    return Err(AnamnesisError::parse(why));
                }
                (14, Field::Varint(place)) => is_external = place == EXTERNAL,
                (2 | 3 | 8 | 9 | 13 | 14, _) => return Err(wrong_type("tensor", number)),
                _ => {}
            }
            Ok(())
        })?;
        let name = name.map(|range| reader.text(range)).transpose()?.unwrap_or_default();
        let raw = raw.filter(|range| !range.is_empty());
        let data = match (is_external, raw, &typed[..]) {
            (true, None, []) => Data::External(Box::new(External::read(reader, external)?)),
            (false, Some(range), []) => Data::Raw(range),
            (false, None, [field]) => Data::Typed(*field),
            (false, None, []) => Data::Missing,
            _ => return Err(AnamnesisError::parse("its values are stored in more than one place").in_tensor(&name)),
        };
        Ok(Self { name, dims, data_type, data, message })
    }

    /// The number of elements; `None` on overflow.
    pub(super) fn elements(&self) -> Option<u64> {
        product(&self.dims)
    }
}

/// The number of elements of a shape; `None` on overflow.
pub(super) fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

fn push_dims(reader: &Reader<'_>, field: Field<Range<u64>>, dims: &mut Vec<u64>) -> Result<()> {
    match field {
        Field::Varint(dim) => dims.push(dim),
        Field::Bytes(range) => dims.extend(reader.packed(range, ONNX_MAX_DIMS, "dimensions")?),
        _ => return Err(wrong_type("tensor", DIMS)),
    }
    if dims.len() > ONNX_MAX_DIMS {
        let message = format!("a tensor has more than {ONNX_MAX_DIMS} dimensions");
        return Err(AnamnesisError::limit("ONNX_MAX_DIMS", message));
    }
    if let Some(dim) = dims.iter().find(|dim| i64::try_from(**dim).is_err()) {
        return Err(AnamnesisError::parse(format!("a dimension of a tensor is {}", dim.cast_signed())));
    }
    Ok(())
}

/// Maximum number of properties of external data; the known ones are five.
const MAX_PROPERTIES: usize = 64;

impl External {
    fn read(reader: &Reader<'_>, entries: Vec<Range<u64>>) -> Result<Self> {
        let (mut found, mut has_location) = (Self::default(), false);
        for entry in entries {
            let (mut key, mut value) = (None, None);
            reader.each(&entry.into(), |number, field| {
                match (number, field) {
                    (1, Field::Bytes(text)) => key = Some(text),
                    (2, Field::Bytes(text)) => value = Some(text),
                    _ => {}
                }
                Ok(())
            })?;
            let text = |range: Option<Range<u64>>| range.map_or(Ok(String::new()), |range| reader.text(range));
            let (key, value) = (text(key)?, text(value)?);
            let number = || {
                let is_decimal = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let number = is_decimal.then(|| value.parse::<u64>().ok()).flatten();
                number.ok_or_else(|| AnamnesisError::parse(format!("the {key} of its external data is {value:?}")))
            };
            match key.as_str() {
                "location" => (found.location, has_location) = (value, true),
                "offset" => found.offset = number()?,
                "length" => found.length = Some(number()?),
                _ => {}
            }
        }
        if !has_location {
            return Err(AnamnesisError::parse("its external data has no location"));
        }
        Ok(found)
    }
}

impl Sparse {
    /// Reads the headers of a sparse tensor.
    pub(super) fn read(reader: &Reader<'_>, message: &Message) -> Result<Self> {
        let (mut values, mut indices, mut dims) = (Message::default(), Message::default(), Vec::new());
        reader.each(message, |number, field| {
            match (number, field) {
                (1, Field::Bytes(piece)) => values.add(piece)?,
                (2, Field::Bytes(piece)) => indices.add(piece)?,
                (3, field) => push_dims(reader, field, &mut dims)?,
                (1 | 2, _) => return Err(wrong_type("sparse tensor", number)),
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { values: Tensor::read(reader, values)?, indices: Tensor::read(reader, indices)?, dims })
    }
}
