//! Small files of a checkpoint, read whole and within bounds.

use std::path::Path;

use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// Longest configuration or other small file read whole, in bytes.
pub(super) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Longest index read, in bytes.
pub(super) const MAX_INDEX_BYTES: u64 = 256 << 20;

/// The text of an index, which must be there.
pub(super) fn read_index(path: &Path) -> Result<Vec<u8>> {
    read_existing(path, MAX_INDEX_BYTES)
}

/// A small file of a checkpoint directory, which must be there.
pub(crate) fn read_sidecar(directory: &Path, name: &str) -> Result<Vec<u8>> {
    read_existing(&directory.join(name), MAX_CONFIG_BYTES)
}

fn read_existing(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let missing = || AnamnesisError::at_path(std::io::Error::from(std::io::ErrorKind::NotFound), path);
    read_bounded(path, max_bytes, None)?.ok_or_else(missing)
}

/// The content of a file, `None` where there is none; one that is too long is refused.
pub(super) fn read_bounded(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Option<Vec<u8>>> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(None) };
    if !metadata.is_file() {
        return Ok(None);
    }
    let what = path.file_name().unwrap_or_default().to_string_lossy();
    if metadata.len() > max_bytes {
        let message = format!("{what} takes {} bytes, {max_bytes} are allowed", metadata.len());
        return Err(AnamnesisError::limit("MAX_CONFIG_BYTES", message));
    }
    if let Some(budget) = budget {
        budget.buffer(metadata.len(), &what)?;
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| AnamnesisError::at_path(error, path))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, max_bytes), &mut text)
        .map_err(|error| AnamnesisError::at_path(error, path))?;
    Ok(Some(text))
}
