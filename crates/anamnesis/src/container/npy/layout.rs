//! Layout of a new NPZ archive: stored entries in tensor order, each array aligned to 64 bytes. The headers contain
//! checksums, so they are written last. The same tensors give the same bytes: the date is fixed.

use super::descr::descr_of;
use super::header::{MAGIC, NPY_MAX_DIMS};
use super::names::unsafe_path_reason;
use crate::container::layout::{DeferredHeaders, Layout, OutputTensor};
use crate::container::zip::{EntryHeaders, ZIP_MAX_ENTRIES, check_new_names, end_of_archive};
use crate::error::{AnamnesisError, Result, quoted};

/// Alignment of headers and elements, as in NumPy.
const ALIGNMENT: u64 = 64;
/// Digits that NumPy reserves so that the first axis can grow in place.
const GROWTH_DIGITS: usize = 21;

pub(super) fn lay_out(tensors: &[OutputTensor]) -> Result<Layout> {
    if tensors.len() as u64 > ZIP_MAX_ENTRIES {
        let message = format!("{} arrays, {ZIP_MAX_ENTRIES} are allowed", tensors.len());
        return Err(AnamnesisError::limit("ZIP_MAX_ENTRIES", message));
    }
    let mut entries = Vec::with_capacity(tensors.len());
    let mut offsets = Vec::with_capacity(tensors.len());
    let mut end = 0;
    let too_large = || AnamnesisError::parse("the output is larger than 2^64 bytes");
    for tensor in tensors {
        if let Some(why) = unsafe_path_reason(&tensor.name) {
            return Err(AnamnesisError::unsupported("NPZ", format!("an array cannot be stored as a file: {why}")));
        }
        let head = array_header(tensor)?;
        let bytes = tensor.bytes.checked_add(head.len() as u64).ok_or_else(too_large)?;
        let headers = EntryHeaders::new(format!("{}.npy", tensor.name), end, bytes, ALIGNMENT);
        let offset = headers.data_offset() + head.len() as u64;
        end = offset.checked_add(tensor.bytes).ok_or_else(too_large)?;
        offsets.push(offset);
        entries.push(NewEntry { headers, head, tensor_bytes: tensor.bytes });
    }
    check_new_names(entries.iter().map(|entry| entry.headers.name()))?;
    let directory_bytes: u64 = entries.iter().map(|entry| entry.headers.central_bytes()).sum();
    let tail = end_of_archive(entries.len() as u64, end, directory_bytes);
    let total_bytes = (end.checked_add(directory_bytes)).and_then(|end| end.checked_add(tail.len() as u64));
    let total_bytes = total_bytes.ok_or_else(too_large)?;
    let deferred = Box::new(ArchiveHeaders { entries, directory: end, tail });
    Ok(Layout { pieces: Vec::new(), offsets, total_bytes, deferred: Some(deferred), byte_order: None })
}

struct NewEntry {
    headers: EntryHeaders,
    /// The NPY header.
    head: Vec<u8>,
    tensor_bytes: u64,
}

struct ArchiveHeaders {
    entries: Vec<NewEntry>,
    /// Offset of the central directory.
    directory: u64,
    tail: Vec<u8>,
}

impl DeferredHeaders for ArchiveHeaders {
    fn pieces(&self, checksums: &[u32]) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut pieces = Vec::with_capacity(self.entries.len() + 1);
        let mut directory = Vec::new();
        for (entry, &checksum) in self.entries.iter().zip(checksums) {
            let mut whole = crc32fast::Hasher::new();
            whole.update(&entry.head);
            whole.combine(&crc32fast::Hasher::new_with_initial_len(checksum, entry.tensor_bytes));
            let crc = whole.finalize();
            let mut front = entry.headers.local(crc);
            front.extend_from_slice(&entry.head);
            pieces.push((entry.headers.offset(), front));
            directory.extend(entry.headers.central(crc));
        }
        directory.extend_from_slice(&self.tail);
        pieces.push((self.directory, directory));
        Ok(pieces)
    }
}

/// The NPY header of a tensor, byte for byte as NumPy writes it.
fn array_header(tensor: &OutputTensor) -> Result<Vec<u8>> {
    let name = || quoted(&tensor.name);
    let Some(descr) = descr_of(tensor.dtype) else {
        let detail = format!("tensor {} has type {}, which NumPy does not have", name(), tensor.dtype);
        return Err(AnamnesisError::unsupported("NPZ", detail));
    };
    if tensor.shape.len() > NPY_MAX_DIMS {
        let message = format!("tensor {} has {} dimensions, {NPY_MAX_DIMS} are allowed", name(), tensor.shape.len());
        return Err(AnamnesisError::limit("NPY_MAX_DIMS", message));
    }
    let sizes: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
    let shape = match &sizes[..] {
        [size] => format!("({size},)"),
        sizes => format!("({})", sizes.join(", ")),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    if let Some(first) = sizes.first() {
        text.extend(std::iter::repeat_n(' ', GROWTH_DIGITS.saturating_sub(first.len())));
    }
    // Magic, version and length precede the text, a newline ends it.
    let prefix = MAGIC.len() + 4;
    let length = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT as usize) - prefix;
    text.extend(std::iter::repeat_n(' ', length - text.len() - 1));
    text.push('\n');
    let too_long =
        |_| AnamnesisError::limit("NPY_MAX_HEADER_BYTES", format!("a header of {length} bytes for {}", name()));
    let length_field = u16::try_from(length).map_err(too_long)?;
    Ok([MAGIC.as_slice(), &[1, 0], &length_field.to_le_bytes(), text.as_bytes()].concat())
}
