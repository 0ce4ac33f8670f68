//! Scanning the files of a directory or of a model in a local store.

use std::path::{Path, PathBuf};

use super::{ScanReport, ScanVerdict, find, scan_file};
use crate::checkpoint::{is_file, resolve};
use crate::error::{AnamnesisError, Result};
use crate::io::{ReadAt, entry_paths, existing_entry, is_unlinked_folder, open_file};
use crate::limits::ParseLimits;

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of files and folders.
const MAX_ENTRIES: usize = 100_000;
/// A scanned file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScannedFile {
    /// Its path.
    pub path: PathBuf,
    /// The globals of its pickles.
    pub report: ScanReport,
}

/// [`scan`](super::scan()) of a file, or of all files in a directory tree that are pickles or may contain one, by
/// extension or content; `hf:ORG/NAME` and `ollama:NAME` are resolved in the local stores. Files of a directory are
/// sorted by name; the list is empty if none can contain a pickle.
///
/// # Errors
/// `Io` if something cannot be read, `LimitExceeded` if a directory has too many entries. Problems of a file are in
/// its report.
pub fn scan_all(path: impl AsRef<Path>) -> Result<Vec<ScannedFile>> {
    scan_all_with_limits(path, &ParseLimits::default())
}

/// [`scan_all`] within limits per file.
///
/// # Errors
/// As [`scan_all`]. Exceeded limits are in the report of the file.
pub fn scan_all_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Vec<ScannedFile>> {
    let place = resolve(path.as_ref())?;
    let is_directory = existing_entry(&place)?.is_folder();
    let mut files = Vec::new();
    if is_directory {
        let mut left = MAX_ENTRIES;
        collect_files(&place, MAX_DEPTH, &mut left, &mut files)?;
        files.sort_unstable();
    } else {
        files.push(place);
    }
    let mut scanned = Vec::new();
    for path in files {
        let report = scan_file(&path, limits)?;
        if !is_directory || report.verdict() != ScanVerdict::HoldsNoCode {
            scanned.push(ScannedFile { path, report });
        }
    }
    Ok(scanned)
}

fn collect_files(folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for path in entry_paths(folder)? {
        *left = left.checked_sub(1).ok_or_else(|| {
            AnamnesisError::limit("scan", format!("more than {MAX_ENTRIES} files, at {}", folder.display()))
        })?;
        // Links to files may lead into a store; links to folders may form cycles.
        if is_unlinked_folder(&path)? {
            let depth = depth.checked_sub(1).ok_or_else(|| {
                AnamnesisError::limit("scan", format!("more than {MAX_DEPTH} folders inside one another"))
            })?;
            collect_files(&path, depth, left, files)?;
        } else if is_file(&path)? && may_hold_pickles(&path)? {
            files.push(path);
        }
    }
    Ok(())
}

fn may_hold_pickles(path: &Path) -> Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(find::may_hold_pickles(&name, &open_file(path)?.head()?))
}
