//! The shape of a new file.

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

/// The shape of a new file: the bytes around the tensors, and where each tensor's bytes go.
pub(crate) struct Layout {
    /// What is not a tensor, with its place. The first piece is the front of the file.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// Absolute offset of each tensor, in the order they were given.
    pub offsets: Vec<u64>,
    pub total_bytes: u64,
    /// Writes what depends on the tensors' bytes, where the format has such a thing.
    pub seal: Option<Box<dyn Seal>>,
}

impl Layout {
    /// A file that is a header and tensors.
    pub(crate) fn behind_header(header: Vec<u8>, offsets: Vec<u64>, total_bytes: u64) -> Self {
        Self { pieces: vec![(0, header)], offsets, total_bytes, seal: None }
    }

    /// The front of the file.
    pub(crate) fn front(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |(_, bytes)| bytes)
    }
}

/// The last step of a file that carries checksums of its tensors.
pub(crate) trait Seal: Send + Sync {
    /// The pieces to write last, from the CRC-32 of every tensor's bytes, in the order they were given.
    fn seal(&self, checksums: &[u32]) -> Result<Vec<(u64, Vec<u8>)>>;
}
