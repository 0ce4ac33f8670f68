//! The permanent limits of ONNX models.

use crate::error::{AnamnesisError, Result};

/// Maximum number of tensors.
pub(super) const ONNX_MAX_TENSORS: u64 = 1 << 20;
/// Maximum number of nodes in all graphs and functions.
pub(super) const ONNX_MAX_NODES: u64 = 1 << 21;
/// Maximum number of fields that are looked at, typed data excepted.
pub(super) const ONNX_MAX_FIELDS: u64 = 1 << 25;
/// Maximum number of dimensions.
pub(super) const ONNX_MAX_DIMS: usize = 64;
/// Maximum nesting of graphs.
pub(super) const ONNX_MAX_DEPTH: usize = 32;
/// Maximum number of pieces of a message that is given in several.
pub(super) const ONNX_MAX_PIECES: usize = 1 << 12;
/// Maximum length of a name or another text, in bytes.
pub(super) const ONNX_MAX_TEXT_BYTES: u64 = 64 << 10;
/// Maximum length of all texts that are read, in bytes.
pub(super) const ONNX_MAX_TEXTS_BYTES: u64 = 256 << 20;
/// Maximum length of the texts that are kept, in bytes.
pub(super) const ONNX_MAX_KEPT_BYTES: u64 = 48 << 20;
/// Maximum number of operators that are counted by name.
pub(super) const ONNX_MAX_OPERATORS: usize = 1 << 12;
/// Maximum number of operator sets, and of metadata entries.
pub(super) const ONNX_MAX_ENTRIES: u64 = 1 << 16;
/// Maximum number of files with external data.
pub(super) const ONNX_MAX_FILES: usize = 1 << 16;
/// Maximum ratio of the size of all tensors, which may share bytes, to that of all files.
pub(super) const ONNX_MAX_SHARING_RATIO: u64 = 64;
/// Dense bytes that every sparse tensor may have.
pub(super) const FREE_SPARSE_BYTES: u64 = 16 << 20;
/// Maximum ratio of the dense size of larger sparse tensors to their stored size.
pub(super) const ONNX_MAX_SPARSE_RATIO: u64 = 256;

/// Refuses a count beyond a limit.
pub(super) fn check(count: u64, most: u64, limit: &'static str, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(AnamnesisError::limit(limit, format!("{what}, {most} are allowed")))
}
