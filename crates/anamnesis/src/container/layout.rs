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
    /// The order of the tensors' bytes in the file, if it is not that of memory.
    pub byte_order: Option<Box<dyn ByteOrder>>,
}

impl Layout {
    /// A file that consists of a header followed by tensors.
    pub(crate) fn with_header(header: Vec<u8>, offsets: Vec<u64>, total_bytes: u64) -> Self {
        Self { pieces: vec![(0, header)], offsets, total_bytes, deferred: None, byte_order: None }
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

/// An order of bytes that differs from that of memory.
pub(crate) trait ByteOrder: Send + Sync {
    /// Passes bytes of a tensor, which begin at this offset of the file, to `put` at the offsets where they are stored.
    fn store(&self, offset: u64, bytes: &[u8], put: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()>;
}
