//! Layout of a new GGUF file, version 3.

use super::byte_order::{SwappedTensors, has_big_endian_layout};
use super::caps::{ARRAY_DEPTH, ARRAY_LEN, KEY_BYTES, KV_COUNT, NAME_BYTES, STRING_BYTES, TENSOR_COUNT, TENSOR_DIMS};
use super::header::{check_alignment, check_size};
use super::metadata::{first_repeated, tag};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT};
use super::{GgufMetadataArray, GgufMetadataValue};
use crate::container::cursor::Cap;
use crate::container::ggml_types::GgufType;
use crate::container::layout::{ByteOrder, Layout};
use crate::error::{AnamnesisError, Result, quoted};

const WRITTEN_VERSION: u32 = 3;
/// The key of the parts of a split model.
const SPLIT_KEY: &str = "split.no";

/// A tensor to be written. The shape is in file order: the fastest-varying dimension first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewTensor<'a> {
    pub name: &'a str,
    pub shape: &'a [usize],
    pub dtype: GgufType,
    pub bytes: u64,
}

/// The order of the metadata keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Sorted by name; the alignment is always included.
    Sorted,
    /// As given, with nothing added; the last tensor is padded too. This is llama.cpp's layout.
    AsGiven,
}

/// The order of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

/// Computes the layout of a file. The caps of the reader apply, so every laid-out file can be read.
///
/// # Errors
/// `Parse` if a tensor's shape does not match its bytes or a name occurs twice, `Unsupported` for an unknown type or
/// an invalid alignment, `LimitExceeded` if a cap is exceeded.
pub(crate) fn lay_out<'a>(
    tensors: &[NewTensor<'_>],
    metadata: impl IntoIterator<Item = (&'a str, &'a GgufMetadataValue)>,
    keys: Keys,
    endian: Endian,
) -> Result<Layout> {
    let default_alignment = GgufMetadataValue::U32(DEFAULT_ALIGNMENT);
    let mut metadata: Vec<(&str, &GgufMetadataValue)> = metadata.into_iter().collect();
    let alignment = match metadata.iter().find(|(key, _)| *key == ALIGNMENT_KEY) {
        Some((_, value)) => {
            check_alignment(value).map_err(|why| why.into_error(|text| AnamnesisError::unsupported("GGUF", text)))?
        }
        None => {
            if keys == Keys::Sorted {
                metadata.push((ALIGNMENT_KEY, &default_alignment));
            }
            DEFAULT_ALIGNMENT
        }
    };
    if keys == Keys::Sorted {
        metadata.sort_by_key(|(key, _)| *key);
    }
    TENSOR_COUNT.check(tensors.len() as u64, "tensors")?;
    KV_COUNT.check(metadata.len() as u64, "metadata entries")?;
    if let Some(key) = first_repeated(metadata.iter().map(|(key, _)| *key)) {
        return Err(AnamnesisError::parse(format!("metadata key {} occurs twice", quoted(key))));
    }
    if let Some(name) = first_repeated(tensors.iter().map(|tensor| tensor.name)) {
        return Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))));
    }

    let is_part = keys == Keys::AsGiven && metadata.iter().any(|(key, _)| *key == SPLIT_KEY);
    let mut header = Header { bytes: b"GGUF".to_vec(), endian };
    header.put(WRITTEN_VERSION.to_le_bytes());
    header.put((tensors.len() as u64).to_le_bytes());
    header.put((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        if key.is_empty() {
            return Err(AnamnesisError::parse("a metadata key is empty"));
        }
        let in_key = |error| AnamnesisError::within(error, format_args!("metadata key {}", quoted(key)));
        write_string(&mut header, key, KEY_BYTES).map_err(in_key)?;
        write_value(&mut header, value).map_err(in_key)?;
    }

    let too_large = || AnamnesisError::parse("the output is larger than 2^64 bytes");
    let align = |end: u64| end.checked_next_multiple_of(u64::from(alignment)).ok_or_else(too_large);
    let mut end = 0u64;
    let mut offsets = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        check_tensor(tensor)?;
        let start = align(end)?;
        end = start.checked_add(tensor.bytes).ok_or_else(too_large)?;
        write_string(&mut header, tensor.name, NAME_BYTES)
            .map_err(|error| error.within(format_args!("tensor {}", quoted(tensor.name))))?;
        header.put((tensor.shape.len() as u32).to_le_bytes());
        for &dim in tensor.shape {
            header.put((dim as u64).to_le_bytes());
        }
        header.put((tensor.dtype as u32).to_le_bytes());
        header.put(start.to_le_bytes());
        offsets.push(start);
    }
    let mut header = header.bytes;
    // llama.cpp pads the metadata of a split model's part without tensors, but not a vocabulary alone.
    if !tensors.is_empty() || is_part {
        header.resize(header.len().next_multiple_of(alignment as usize), 0);
    }
    let data = header.len() as u64;
    let end = if keys == Keys::AsGiven { align(end)? } else { end };
    let total_bytes = data.checked_add(end).ok_or_else(too_large)?;
    let offsets: Vec<u64> = offsets.into_iter().map(|offset| data + offset).collect();
    let byte_order = match endian {
        Endian::Little => None,
        Endian::Big => Some(big_endian(tensors, &offsets)?),
    };
    Ok(Layout { byte_order, ..Layout::with_header(header, offsets, total_bytes) })
}

/// How the tensors are stored in a big-endian file.
fn big_endian(tensors: &[NewTensor<'_>], offsets: &[u64]) -> Result<Box<dyn ByteOrder>> {
    let mut placed = Vec::with_capacity(tensors.len());
    for (tensor, &offset) in tensors.iter().zip(offsets) {
        match tensor.dtype.dtype().filter(|dtype| has_big_endian_layout(*dtype)) {
            Some(dtype) => placed.push((dtype, offset..offset.saturating_add(tensor.bytes))),
            None => {
                let (name, dtype) = (quoted(tensor.name), tensor.dtype);
                let why = format!("tensor {name} has type {dtype}, whose big-endian layout is not defined");
                return Err(AnamnesisError::unsupported("big-endian GGUF", why));
            }
        }
    }
    Ok(Box::new(SwappedTensors::new(placed.into_iter())))
}

/// The front matter under construction.
struct Header {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Header {
    /// Appends a number, given in little-endian order.
    fn put<const BYTES: usize>(&mut self, mut number: [u8; BYTES]) {
        if self.endian == Endian::Big {
            number.reverse();
        }
        self.bytes.extend_from_slice(&number);
    }
}

fn check_tensor(tensor: &NewTensor<'_>) -> Result<()> {
    let NewTensor { name, shape, dtype, bytes } = *tensor;
    let in_tensor = |error| AnamnesisError::within(error, format_args!("tensor {}", quoted(name)));
    TENSOR_DIMS.check(shape.len() as u64, "dimensions").map_err(|_| {
        let (rank, most) = (shape.len(), TENSOR_DIMS.1);
        AnamnesisError::parse(format!("tensor {} has {rank} dimensions, {most} are allowed", quoted(name)))
    })?;
    if shape.is_empty() {
        return Err(in_tensor(AnamnesisError::parse("it has no dimensions")));
    }
    match check_size(name, shape, dtype)? {
        None => Err(AnamnesisError::unsupported("GGUF", format!("tensor {} has {dtype} type", quoted(name)))),
        Some(expected) if expected == bytes => Ok(()),
        Some(expected) => Err(AnamnesisError::parse(format!(
            "tensor {} of {dtype} {shape:?} takes {expected} bytes, {bytes} were given",
            quoted(name)
        ))),
    }
}

fn write_string(header: &mut Header, text: &str, cap: Cap) -> Result<()> {
    cap.check(text.len() as u64, "bytes of text")?;
    header.put((text.len() as u64).to_le_bytes());
    header.bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

macro_rules! write_number {
    ($header:expr, $tag:expr, $number:expr) => {{
        $header.put($tag.to_le_bytes());
        $header.put($number.to_le_bytes());
    }};
}

fn write_value(header: &mut Header, value: &GgufMetadataValue) -> Result<()> {
    use GgufMetadataValue as Value;
    match value {
        Value::U8(number) => write_number!(header, tag::U8, number),
        Value::I8(number) => write_number!(header, tag::I8, number),
        Value::U16(number) => write_number!(header, tag::U16, number),
        Value::I16(number) => write_number!(header, tag::I16, number),
        Value::U32(number) => write_number!(header, tag::U32, number),
        Value::I32(number) => write_number!(header, tag::I32, number),
        Value::F32(number) => write_number!(header, tag::F32, number),
        Value::U64(number) => write_number!(header, tag::U64, number),
        Value::I64(number) => write_number!(header, tag::I64, number),
        Value::F64(number) => write_number!(header, tag::F64, number),
        Value::Bool(truth) => write_number!(header, tag::BOOL, u8::from(*truth)),
        Value::String(text) => {
            header.put(tag::STRING.to_le_bytes());
            write_string(header, text, STRING_BYTES)?;
        }
        Value::Array(array) => {
            header.put(tag::ARRAY.to_le_bytes());
            write_array(header, array, 1)?;
        }
    }
    Ok(())
}

macro_rules! write_numbers {
    ($header:expr, $tag:expr, $items:expr) => {{
        write_array_head($header, $tag, $items.len())?;
        $header.bytes.reserve(size_of_val(&$items[..]));
        $items.iter().for_each(|item| $header.put(item.to_le_bytes()));
    }};
}

fn write_array(header: &mut Header, array: &GgufMetadataArray, depth: u64) -> Result<()> {
    use GgufMetadataArray as Array;
    ARRAY_DEPTH.check(depth, "levels of arrays")?;
    match array {
        Array::U8(items) => write_numbers!(header, tag::U8, items),
        Array::I8(items) => write_numbers!(header, tag::I8, items),
        Array::U16(items) => write_numbers!(header, tag::U16, items),
        Array::I16(items) => write_numbers!(header, tag::I16, items),
        Array::U32(items) => write_numbers!(header, tag::U32, items),
        Array::I32(items) => write_numbers!(header, tag::I32, items),
        Array::F32(items) => write_numbers!(header, tag::F32, items),
        Array::U64(items) => write_numbers!(header, tag::U64, items),
        Array::I64(items) => write_numbers!(header, tag::I64, items),
        Array::F64(items) => write_numbers!(header, tag::F64, items),
        Array::Bool(items) => {
            write_array_head(header, tag::BOOL, items.len())?;
            header.bytes.extend(items.iter().map(|truth| u8::from(*truth)));
        }
        Array::String(items) => {
            write_array_head(header, tag::STRING, items.len())?;
            for item in items {
                write_string(header, item, STRING_BYTES)?;
            }
        }
        Array::Array(items) => {
            write_array_head(header, tag::ARRAY, items.len())?;
            for item in items {
                write_array(header, item, depth + 1)?;
            }
        }
    }
    Ok(())
}

fn write_array_head(header: &mut Header, item_tag: u32, count: usize) -> Result<()> {
    ARRAY_LEN.check(count as u64, "items of an array")?;
    header.put(item_tag.to_le_bytes());
    header.put((count as u64).to_le_bytes());
    Ok(())
}
