//! The promise of every reader: any bytes are a file of its format or a typed error, within the limits; the tensors of
//! a file that is read can be decoded or are refused.

use anamnesis::{Checkpoint, Format, OpenOptions, ParseLimits, TargetDtype};

/// Reads a file and all of its tensors, if it is of this format.
pub fn read(file: &[u8], format: Format) {
    let limits = ParseLimits::default().with_max_single_alloc(4 << 20).with_max_total_bytes(16 << 20);
    let options = OpenOptions::new().with_limits(limits).with_skip_unsupported(true);
    let Ok(checkpoint) = Checkpoint::from_bytes_with(file.to_vec(), &options) else { return };
    if checkpoint.format() != format {
        return;
    }
    let _ = checkpoint.inspect(&Default::default()).to_string();
    let _ = checkpoint.metadata();
    // Chunks that are never written are read from no bytes, so a small file can have a large tensor.
    let bytes = checkpoint.tensors().iter().try_fold(0u64, |sum, tensor| sum.checked_add(tensor.bytes));
    if bytes.is_some_and(|bytes| bytes < 4 << 20) {
        checkpoint.decoded(TargetDtype::F32).for_each(drop);
    }
}
