//! Bytes of the data section that no tensor takes. Tensors follow each other with nothing between them but the padding that
//! the alignment asks for, so anything more means that an entry or the alignment is not what it was when the file was written.

use super::header::GgufTensorInfo;
use crate::error::quoted;

/// Where bytes are spare, for people. `data` is where the data section begins, `order` the placed tensors in the order of their
/// bytes.
pub(super) fn spare(order: &[&GgufTensorInfo], data: u64, file_bytes: u64, alignment: u32) -> Option<String> {
    let mut end = Some(data);
    let mut before = None;
    for tensor in order {
        let spare = end.filter(|end| end.next_multiple_of(u64::from(alignment)) != tensor.data_offset);
        if let Some(end) = spare {
            return Some(told(end, tensor.data_offset, before, Some(tensor)));
        }
        // Where the size of a type is not known, nor is where its bytes end.
        end = tensor.byte_len.map(|bytes| tensor.data_offset + bytes);
        before = Some(*tensor);
    }
    let end = end.filter(|end| end.next_multiple_of(u64::from(alignment)) < file_bytes)?;
    before.map(|last| told(end, file_bytes, Some(last), None))
}

fn told(from: u64, to: u64, before: Option<&GgufTensorInfo>, after: Option<&GgufTensorInfo>) -> String {
    let name = |tensor: &GgufTensorInfo| quoted(&tensor.name);
    let place = match (before.map(name), after.map(name)) {
        (Some(before), Some(after)) => format!("between tensors {before} and {after}"),
        (None, Some(after)) => format!("before tensor {after}"),
        (before, None) => format!("behind tensor {}", before.unwrap_or_default()),
    };
    format!("bytes {from} to {to}, {place}, belong to no tensor and are more than padding")
}
