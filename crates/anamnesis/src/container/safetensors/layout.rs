//! Layout of a new safetensors file. Order and padding are those of the reference serializer (wider types first, then
//! by name; the header padded with spaces to a multiple of 8), so that the same tensors give the same bytes.

use std::collections::BTreeMap;
use std::io::Write;

use super::json::METADATA;
use super::{MAX_SAFETENSORS_HEADER_BYTES, PREFIX_BYTES};
use crate::catalog::{Metadata, MetadataValue};
use crate::container::layout::{Layout, OutputTensor};
use crate::error::{AnamnesisError, Result, quoted};

pub(super) fn lay_out(tensors: &[OutputTensor], metadata: Option<&Metadata>) -> Result<Layout> {
    let mut order = Vec::with_capacity(tensors.len());
    for (index, tensor) in tensors.iter().enumerate() {
        if tensor.name == METADATA {
            let why = format!("a tensor cannot be named {}, the key of the metadata", quoted(METADATA));
            return Err(AnamnesisError::unsupported("safetensors", why));
        }
        order.push((std::cmp::Reverse(tensor.dtype.safetensors_rank()?), tensor.name.as_str(), index));
    }
    order.sort_unstable();
    let mut names: Vec<&str> = order.iter().map(|&(_, name, _)| name).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(pair[0]))));
    }

    let mut header = vec![0; PREFIX_BYTES as usize];
    let mut relative = vec![0; tensors.len()];
    let mut end = 0u64;
    header.push(b'{');
    if let Some(metadata) = metadata {
        write_json(&mut header, METADATA)?;
        header.push(b':');
        serde_json::to_writer(&mut header, &string_metadata(metadata)?).map_err(std::io::Error::from)?;
    }
    for (_, name, index) in order {
        let tensor = &tensors[index];
        if header.len() > PREFIX_BYTES as usize + 1 {
            header.push(b',');
        }
        relative[index] = end;
        let start = end;
        end = end
            .checked_add(tensor.bytes)
            .ok_or_else(|| AnamnesisError::parse("the output is larger than 2^64 bytes"))?;
        write_json(&mut header, name)?;
        write!(header, r#":{{"dtype":"{}","shape":["#, tensor.dtype)?;
        for (axis, dim) in tensor.shape.iter().enumerate() {
            write!(header, "{}{dim}", if axis == 0 { "" } else { "," })?;
        }
        write!(header, r#"],"data_offsets":[{start},{end}]}}"#)?;
    }
    header.push(b'}');
    header.resize(header.len().next_multiple_of(8), b' ');

    let json_bytes = header.len() as u64 - PREFIX_BYTES;
    if json_bytes > MAX_SAFETENSORS_HEADER_BYTES {
        let why =
            format!("the output needs a header of {json_bytes} bytes, {MAX_SAFETENSORS_HEADER_BYTES} are allowed");
        return Err(AnamnesisError::limit("MAX_SAFETENSORS_HEADER_BYTES", why));
    }
    header[..PREFIX_BYTES as usize].copy_from_slice(&json_bytes.to_le_bytes());
    let data = header.len() as u64;
    let total_bytes =
        end.checked_add(data).ok_or_else(|| AnamnesisError::parse("the output is larger than 2^64 bytes"))?;
    let offsets = relative.into_iter().map(|offset| data + offset).collect();
    Ok(Layout::with_header(header, offsets, total_bytes))
}

/// The metadata as strings, the only type the format has.
fn string_metadata(metadata: &Metadata) -> Result<BTreeMap<&str, &str>> {
    let mut string_metadata = BTreeMap::new();
    for (key, value) in metadata.iter() {
        let MetadataValue::String(text) = value else {
            let why = format!("metadata entry {} is not a string; safetensors stores strings only", quoted(key));
            return Err(AnamnesisError::unsupported("safetensors", why));
        };
        string_metadata.insert(key.as_str(), text.as_str());
    }
    Ok(string_metadata)
}

fn write_json(header: &mut Vec<u8>, text: &str) -> Result<()> {
    Ok(serde_json::to_writer(header, text).map_err(std::io::Error::from)?)
}
