//! The files of a directory or of a model in a local store that may hold pickles.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ScanReport, ScanVerdict, within};
use crate::checkpoint::{is_file, resolve};
use crate::error::{AnamnesisError, Result};
use crate::io::{FileSource, Source};
use crate::limits::ParseLimits;

/// Folders inside one another that are looked into.
const MAX_DEPTH: usize = 16;
/// Files and folders that are looked at.
const MAX_ENTRIES: usize = 100_000;
/// Ends of the names of files that are pickles or hold them, in lower case.
const ENDINGS: [&str; 12] =
    ["pt", "pth", "bin", "ckpt", "pkl", "pickle", "joblib", "dill", "npy", "npz", "zip", "torchscript"];

/// A file and what was found in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScannedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its pickles refer to.
    pub report: ScanReport,
}

/// [`scan`](super::scan()) of what a user names: a file, or every file of a directory, with the folders in it, that is a pickle or may hold
/// one, by name or content; `hf:ORG/NAME` and `ollama:NAME` are looked up in the local stores. Directories give their files
/// in the order of their names, and none where nothing in them can hold a pickle.
///
/// # Errors
/// `Io` where something cannot be read, `LimitExceeded` where a directory has too many entries. What is wrong with a file is
/// part of its report.
pub fn scan_all(path: impl AsRef<Path>) -> Result<Vec<ScannedFile>> {
    scan_all_with_limits(path, &ParseLimits::default())
}

/// [`scan_all`], with limits to what each file may ask for.
///
/// # Errors
/// As [`scan_all`]. A file that asks for more has that in its report.
pub fn scan_all_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Vec<ScannedFile>> {
    let place = resolve(path.as_ref())?;
    let is_directory = fs::metadata(&place).map_err(|error| AnamnesisError::at_path(error, &place))?.is_dir();
    let mut files = Vec::new();
    if is_directory {
        let mut left = MAX_ENTRIES;
        find(&place, MAX_DEPTH, &mut left, &mut files)?;
        files.sort_unstable();
    } else {
        files.push(place);
    }
    let mut scanned = Vec::new();
    for path in files {
        let report = within(&path, limits)?;
        if !is_directory || report.verdict() != ScanVerdict::HoldsNoCode {
            scanned.push(ScannedFile { path, report });
        }
    }
    Ok(scanned)
}

fn find(folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let at = |error| AnamnesisError::at_path(error, folder);
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        *left = left.checked_sub(1).ok_or_else(|| {
            AnamnesisError::limit("scan", format!("more than {MAX_ENTRIES} files, at {}", folder.display()))
        })?;
        let path = entry.path();
        // Files may be links into a store; folders that are links may lead in circles.
        if entry.file_type().map_err(at)?.is_dir() {
            let depth = depth.checked_sub(1).ok_or_else(|| {
                AnamnesisError::limit("scan", format!("more than {MAX_DEPTH} folders inside one another"))
            })?;
            find(&path, depth, left, files)?;
        } else if is_file(&path)? && may_hold_pickles(&path)? {
            files.push(path);
        }
    }
    Ok(())
}

fn may_hold_pickles(path: &Path) -> Result<bool> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    if ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
        return Ok(true);
    }
    let source = FileSource::open(path)?;
    let mut head = vec![0; source.len().min(6) as usize];
    source.read_at(0, &mut head)?;
    Ok(matches!(head[..], [0x80, 0..=5, ..] | [b'P', b'K', 3 | 5, 4 | 6, ..] | [0x93, b'N', b'U', b'M', b'P', b'Y']))
}
