//! The promise of every reader: any bytes are a file of its format or a typed error, within the limits; the tensors of
//! a file that is read can be decoded or are refused.

use anamnesis::{AnamnesisError, Checkpoint, Format, OpenOptions, ParseLimits, TargetDtype, detect_format_from_bytes};

/// Tensors that together have more bytes are not decoded: chunks that are never written, for example, take no bytes.
pub(crate) const MAX_DECODED_BYTES: u64 = 1 << 20;

/// Limits of a small file.
pub(crate) fn limits() -> ParseLimits {
    ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20)
}

/// Options with these limits.
pub(crate) fn options() -> OpenOptions {
    OpenOptions::new().with_limits(limits()).with_skip_unsupported(true)
}

/// Reads a file and all of its tensors, if it is of this format.
pub(crate) fn read(file: &[u8], format: Format) {
    if !detect_format_from_bytes(file).is_ok_and(|found| found == format) {
        return;
    }
    if let Ok(checkpoint) = Checkpoint::from_bytes_with(file.to_vec(), &options()) {
        decode(&checkpoint);
    }
}

/// Inspects and decodes all tensors.
pub(crate) fn decode(checkpoint: &Checkpoint) {
    let _ = checkpoint.inspect(&Default::default()).to_string();
    let _ = checkpoint.metadata();
    let bytes = checkpoint.tensors().iter().try_fold(0u64, |sum, tensor| sum.checked_add(tensor.bytes));
    if bytes.is_none_or(|bytes| bytes > MAX_DECODED_BYTES) {
        return;
    }
    for tensor in checkpoint.decoded(TargetDtype::F32) {
        if let Err(error) = tensor {
            assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}");
        }
    }
}
