//! Reading small files of a checkpoint within limits.

use std::io::{Error, ErrorKind};
use std::path::Path;

use crate::error::{AnamnesisError, Result};
use crate::io::{entry, open_file};
use crate::limits::Budget;

/// Maximum size of a configuration or another small file.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Maximum size of an index, three times that of the largest models.
pub(super) const MAX_INDEX_BYTES: u64 = 64 << 20;
/// Maximum number of JSON values in an index, which has one per tensor.
pub(super) const MAX_INDEX_VALUES: usize = 1 << 20;
/// Maximum number of JSON values in any other file.
pub(crate) const MAX_JSON_VALUES: usize = 1 << 21;

/// The text of an index; a missing file is an error.
pub(super) fn read_index(path: &Path) -> Result<Vec<u8>> {
    read_existing(path, MAX_INDEX_BYTES, None)
}

/// The content of a small file in a checkpoint directory; a missing file is an error.
pub(crate) fn read_sidecar(directory: &Path, name: &str) -> Result<Vec<u8>> {
    read_existing(&directory.join(name), MAX_CONFIG_BYTES, None)
}

/// The content of a file; a missing file is an error.
pub(crate) fn read_existing(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Vec<u8>> {
    let missing = || AnamnesisError::at_path(Error::new(ErrorKind::NotFound, "no such file"), path);
    read_bounded(path, max_bytes, budget)?.ok_or_else(missing)
}

/// Whether a regular file of this name exists, following links. A path that cannot be inspected is an error, since a
/// file there could change the meaning of the checkpoint.
pub(crate) fn is_file(path: &Path) -> Result<bool> {
    Ok(entry(path)?.is_some_and(|entry| entry.is_file()))
}

/// Refuses JSON with too many values before parsing it: a parsed value takes far more memory than its two bytes of
/// text. Values are counted by their preceding comma, or bracket for the first of an array or object.
pub(crate) fn check_json_values(text: &[u8], most: usize, what: &str) -> Result<()> {
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if values > most {
        let message = format!("{what} has {values} values, {most} are allowed");
        return Err(AnamnesisError::limit("MAX_JSON_VALUES", message));
    }
    Ok(())
}

/// The content of a file; `None` if it does not exist. A file that cannot be read is an error, since it may have
/// content that matters; so is one that is too large.
pub(crate) fn read_bounded(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Option<Vec<u8>>> {
    let at = |error| AnamnesisError::at_path(error, path);
    let entry = match entry(path)? {
        Some(entry) => entry,
        None if std::fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) => {
            return Err(at(Error::new(ErrorKind::NotFound, "a link to a file that is not there")));
        }
        None => return Ok(None),
    };
    // Checked before opening: opening a named pipe would block until a writer appears.
    if !entry.is_file() {
        let (kind, what) = match entry.is_folder() {
            true => (ErrorKind::IsADirectory, "a directory, a file is needed"),
            false => (ErrorKind::InvalidInput, "not a regular file"),
        };
        return Err(at(Error::new(kind, what)));
    }
    let what = path.file_name().unwrap_or_default().to_string_lossy();
    if entry.bytes > max_bytes {
        let message = format!("{what} takes {} bytes, {max_bytes} are allowed", entry.bytes);
        return Err(AnamnesisError::limit("MAX_CONFIG_BYTES", message));
    }
    if let Some(budget) = budget {
        budget.buffer(entry.bytes, &what)?;
    }
    let source = open_file(path)?;
    let mut text = vec![0; source.len().min(max_bytes) as usize];
    source.read_at(0, &mut text)?;
    if what.ends_with(".json") && max_bytes <= MAX_CONFIG_BYTES {
        check_json_values(&text, MAX_JSON_VALUES, &what)?;
    }
    Ok(Some(text))
}
