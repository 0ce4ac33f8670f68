//! Reading and validating a safetensors header: one linear pass over the tensors in offset order.

use std::io::Read;

use super::json;
use crate::catalog::{Catalog, Dtype, Extent, Metadata, StoredTensor, dtype};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::limits::Budget;

/// Maximum header length in bytes.
pub const MAX_SAFETENSORS_HEADER_BYTES: u64 = 100 * 1024 * 1024;

/// Bytes of the header length at the start of the file.
pub(crate) const PREFIX_BYTES: u64 = 8;

/// A validated header. Tensors are in offset order and contiguous.
#[derive(Debug)]
pub(crate) struct Header {
    pub tensors: Vec<HeaderTensor>,
    pub metadata: Option<Metadata>,
    /// Length of the JSON in bytes.
    pub json_bytes: u64,
    /// Length of the data section in bytes.
    pub data_bytes: u64,
}

/// A tensor of the header; `start` is an offset in the data section.
#[derive(Debug)]
pub(crate) struct HeaderTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub start: u64,
    pub bytes: u64,
}

impl Header {
    pub(crate) fn into_catalog(self, file: u32) -> Result<Catalog> {
        let data = PREFIX_BYTES + self.json_bytes;
        let tensors = self.tensors.into_iter().map(|tensor| StoredTensor {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
            extent: Extent { file, offset: data + tensor.start, bytes: tensor.bytes },
        });
        Catalog::new(tensors.collect(), self.metadata)
    }
}

/// Whether a file starts with a plausible header length and a JSON object.
pub(super) fn begins_header(head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_first_chunk() else { return false };
    u64::from_le_bytes(*length) <= MAX_SAFETENSORS_HEADER_BYTES && rest.first() == Some(&b'{')
}

/// Reads the header of a whole file; the data section must match the tensors exactly.
pub(crate) fn read_header(source: &dyn Source, budget: &mut Budget) -> Result<Header> {
    let file_bytes = source.len();
    if file_bytes < PREFIX_BYTES {
        return Err(AnamnesisError::parse(format!(
            "a safetensors file starts with an 8-byte header length, this file has {file_bytes} bytes"
        )));
    }
    let mut prefix = [0; PREFIX_BYTES as usize];
    source.read_at(0, &mut prefix)?;
    let json_bytes = u64::from_le_bytes(prefix);
    let rest = file_bytes - PREFIX_BYTES;
    if json_bytes > rest && json_bytes <= MAX_SAFETENSORS_HEADER_BYTES {
        return Err(AnamnesisError::parse(format!(
            "the safetensors header takes {json_bytes} bytes, past the end of the file ({file_bytes})"
        )));
    }
    let mut json = header_buffer(json_bytes, budget)?;
    source.read_at(PREFIX_BYTES, &mut json)?;
    check_data_bytes(parse_header(&json, budget)?, rest - json_bytes)
}

/// Reads the header at the start of a stream; the data section is not checked.
pub(crate) fn parse_header_prefix(mut reader: impl Read, budget: &mut Budget) -> Result<Header> {
    let mut prefix = [0; PREFIX_BYTES as usize];
    reader.read_exact(&mut prefix)?;
    let mut json = header_buffer(u64::from_le_bytes(prefix), budget)?;
    reader.read_exact(&mut json)?;
    parse_header(&json, budget)
}

fn header_buffer(json_bytes: u64, budget: &mut Budget) -> Result<Vec<u8>> {
    if json_bytes > MAX_SAFETENSORS_HEADER_BYTES {
        return Err(AnamnesisError::limit(
            "MAX_SAFETENSORS_HEADER_BYTES",
            format!("a header of {json_bytes} bytes, {MAX_SAFETENSORS_HEADER_BYTES} are allowed"),
        ));
    }
    budget.buffer(json_bytes, "the safetensors header")?;
    Ok(vec![0; json_bytes as usize])
}

/// Parses and validates the JSON of a header.
pub(crate) fn parse_header(json: &[u8], budget: &mut Budget) -> Result<Header> {
    if json.first() != Some(&b'{') {
        return Err(AnamnesisError::parse("failed to parse safetensors header: it does not start with '{'"));
    }
    let json::Document { tensors: mut declared, metadata } = json::parse(json)?;
    budget.items(declared.len() as u64, "tensors")?;
    if !declared.is_sorted_by_key(|tensor| (tensor.start, tensor.end)) {
        declared.sort_by_key(|tensor| (tensor.start, tensor.end));
    }
    let mut end = 0;
    let mut tensors = Vec::with_capacity(declared.len());
    for json::DeclaredTensor { name, dtype, shape, start, end: declared_end } in declared {
        let bytes = dtype::elements(&shape).and_then(|elements| dtype.byte_len(elements)).ok_or_else(|| {
            let why = format!("tensor {} of shape {shape:?} has no size in whole bytes of {dtype}", quoted(&name));
            AnamnesisError::parse(why)
        })?;
        if start != end {
            let what = if start > end { "leaves a hole before it" } else { "overlaps the one before it" };
            let why = format!("tensor {} starts at data byte {start}, {what}: {end} was expected", quoted(&name));
            return Err(AnamnesisError::parse(why));
        }
        end = start.checked_add(bytes).filter(|&end| end == declared_end).ok_or_else(|| {
            AnamnesisError::parse(format!(
                "tensor {} of {dtype} {shape:?} takes {bytes} bytes, its data_offsets are [{start}, {declared_end}]",
                quoted(&name)
            ))
        })?;
        tensors.push(HeaderTensor { name, dtype, shape, start, bytes });
    }
    if end.checked_add(PREFIX_BYTES + json.len() as u64).is_none() {
        return Err(AnamnesisError::parse(format!("the tensors end at data byte {end}, past the end of any file")));
    }
    Ok(Header { tensors, metadata, json_bytes: json.len() as u64, data_bytes: end })
}

fn check_data_bytes(header: Header, available: u64) -> Result<Header> {
    if header.data_bytes == available {
        return Ok(header);
    }
    let reason = if header.data_bytes > available {
        let at = header.tensors.iter().find(|tensor| tensor.start + tensor.bytes > available);
        format!(
            "the file is truncated: tensor {} ends at data byte {}, the file holds {available}",
            at.map_or_else(String::new, |tensor| quoted(&tensor.name)),
            at.map_or(header.data_bytes, |tensor| tensor.start + tensor.bytes),
        )
    } else {
        format!("{} bytes after the last tensor belong to nothing", available - header.data_bytes)
    };
    Err(AnamnesisError::parse(reason))
}
