//! Layout of a new file.

use crate::catalog::Dtype;
use crate::error::Result;

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(crate) struct OutputTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: u64,
}

/// Layout of a new file: the bytes around the tensors, and the offset of each tensor.
pub(crate) struct Layout {
    /// All bytes outside the tensors, with their offsets. The first piece is the start of the file.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// Absolute offset of each tensor, in the order they were given.
    pub offsets: Vec<u64>,
    pub total_bytes: u64,
    /// Bytes that depend on the tensors' checksums, for formats that carry any.
    pub deferred: Option<Box<dyn DeferredHeaders>>,
}

impl Layout {
    /// A file that consists of a header followed by tensors.
    pub(crate) fn with_header(header: Vec<u8>, offsets: Vec<u64>, total_bytes: u64) -> Self {
        Self { pieces: vec![(0, header)], offsets, total_bytes, deferred: None }
    }

    /// The first piece: the start of the file.
    pub(crate) fn front(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |(_, bytes)| bytes)
    }
}

/// Headers that contain checksums of the tensors and are therefore written last.
pub(crate) trait DeferredHeaders: Send + Sync {
    /// The pieces to write, given the CRC-32 of every tensor in the order of `Layout::offsets`.
    fn pieces(&self, checksums: &[u32]) -> Result<Vec<(u64, Vec<u8>)>>;
}
