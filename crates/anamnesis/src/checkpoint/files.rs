//! Small files of a checkpoint, read whole and within bounds.

use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// Longest configuration or other small file read whole, in bytes.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Longest index read, in bytes. Those of the largest models take a third.
pub(super) const MAX_INDEX_BYTES: u64 = 64 << 20;
/// Most values of an index, which has one for each tensor.
pub(super) const MAX_INDEX_VALUES: usize = 1 << 20;
/// Most values of any other JSON file that is read whole.
pub(crate) const MAX_JSON_VALUES: usize = 1 << 21;

/// The text of an index, which must be there.
pub(super) fn read_index(path: &Path) -> Result<Vec<u8>> {
    read_existing(path, MAX_INDEX_BYTES, None)
}

/// A small file of a checkpoint directory, which must be there.
pub(crate) fn read_sidecar(directory: &Path, name: &str) -> Result<Vec<u8>> {
    read_existing(&directory.join(name), MAX_CONFIG_BYTES, None)
}

/// The content of a file that must be there.
pub(crate) fn read_existing(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Vec<u8>> {
    let missing = || AnamnesisError::at_path(Error::new(ErrorKind::NotFound, "no such file"), path);
    read_bounded(path, max_bytes, budget)?.ok_or_else(missing)
}

/// Whether there is a regular file of this name, through links. A place that cannot be looked at is an error: it may hold what
/// the checkpoint means.
pub(crate) fn is_file(path: &Path) -> Result<bool> {
    Ok(metadata(path)?.is_some_and(|metadata| metadata.is_file()))
}

/// What the system says about a place, `None` where nothing is there.
pub(crate) fn metadata(path: &Path) -> Result<Option<std::fs::Metadata>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(AnamnesisError::at_path(error, path)),
    }
}

/// Refuses JSON of very many values before they are made: each takes far more memory than its two bytes of text. A value that
/// is not the first of its list or object stands behind a comma, the first behind a bracket.
pub(crate) fn check_json_values(text: &[u8], most: usize, what: &str) -> Result<()> {
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if values > most {
        let message = format!("{what} has {values} values, {most} are allowed");
        return Err(AnamnesisError::limit("MAX_JSON_VALUES", message));
    }
    Ok(())
}

/// The content of a file, `None` where there is none. One that is there and cannot be read is an error: what it says is not
/// known, which is not the same as nothing. One that is too long is refused.
pub(crate) fn read_bounded(path: &Path, max_bytes: u64, budget: Option<&mut Budget>) -> Result<Option<Vec<u8>>> {
    let at = |error| AnamnesisError::at_path(error, path);
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(link) if link.is_symlink() => std::fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "a link to a file that is not there"),
            _ => error,
        }),
        found => found,
    };
    let metadata = found.map_err(at)?;
    // Never opened: a pipe would wait for a writer.
    if !metadata.is_file() {
        let (kind, what) = match metadata.is_dir() {
            true => (ErrorKind::IsADirectory, "a directory, a file is needed"),
            false => (ErrorKind::InvalidInput, "not a regular file"),
        };
        return Err(at(Error::new(kind, what)));
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
    std::fs::File::open(path).and_then(|file| file.take(max_bytes).read_to_end(&mut text)).map_err(at)?;
    if what.ends_with(".json") && max_bytes <= MAX_CONFIG_BYTES {
        check_json_values(&text, MAX_JSON_VALUES, &what)?;
    }
    Ok(Some(text))
}
