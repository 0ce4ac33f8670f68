//! Scanning pickles for the globals they refer to, without executing them.
//!
//! A pickle is a program: loading one with Python can run arbitrary code. [`scan`] interprets it without calling
//! anything, and lists every global it would import, with its position and whether a conversion accepts it.

mod find;
mod folder;
mod grade;
mod keras;
mod probe;
mod report;
mod saved_model;
mod scanner;

use std::path::Path;
use std::sync::Arc;

use crate::catalog::TargetDtype;
use crate::checkpoint::Checkpoint;
use crate::container::OpenOptions;
use crate::error::{AnamnesisError, Result};
use crate::io::{BytesSource, PositionedRead, PositionedSource, open_file};
use crate::limits::ParseLimits;

pub use folder::{ScannedFile, scan_all, scan_all_with_limits};
pub use report::{Grade, ScanReport, ScanVerdict, ScannedGlobal, ScannedLanguage, ScannedPickle};

/// Lists the globals of all pickles in a file: entries of an archive, a legacy PyTorch stream, a bare pickle, NumPy
/// arrays of objects. The kind of file is detected from the content, not the name.
///
/// ```no_run
/// let report = anamnesis::scan("model.pth")?;
/// for pickle in &report.pickles {
///     for global in pickle.globals.iter().filter(|global| !global.allowed) {
///         println!("{}: {}.{} at byte {}", pickle.name, global.module, global.name, global.position);
///     }
/// }
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if the file cannot be read. Problems of its content are in the report.
pub fn scan(path: impl AsRef<Path>) -> Result<ScanReport> {
    scan_file(path.as_ref(), &ParseLimits::default())
}

fn scan_file(path: &Path, limits: &ParseLimits) -> Result<ScanReport> {
    let report = find::scan(&*open_file(path)?, limits)?;
    // The files of a distributed checkpoint are converted together.
    match path.extension().is_some_and(|extension| extension == "distcp") {
        true => as_opened(report, || Checkpoint::open(path, limits)),
        false => as_opened(report, || Checkpoint::open_file(path, limits)),
    }
}

/// [`scan`] of a file given by positioned reads.
///
/// # Errors
/// As [`scan`].
pub fn scan_positioned<R: PositionedRead + 'static>(reader: R, limits: &ParseLimits) -> Result<ScanReport> {
    let reader = Arc::new(reader);
    let report = find::scan(&PositionedSource::new(Arc::clone(&reader))?, limits)?;
    as_opened(report, || Checkpoint::from_positioned(reader, &OpenOptions::new().with_limits(limits.clone())))
}

/// Adds what opening the file shows: why a conversion would refuse a safe one, found by planning it, and the format of
/// one without pickles.
fn as_opened(mut report: ScanReport, open: impl FnOnce() -> Result<Checkpoint>) -> Result<ScanReport> {
    match report.verdict() {
        ScanVerdict::Safe | ScanVerdict::RefersToCodeUnloaded => {
            report.refusal = match open().and_then(|checkpoint| checkpoint.plan(TargetDtype::BF16).map(drop)) {
                Ok(()) => None,
                Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
                Err(error) => Some(error.to_string()),
            };
        }
        // Some formats are recognised by their names alone.
        ScanVerdict::Malformed if report.problems.is_empty() => {
            if let Ok(checkpoint) = open() {
                find::describe_opened(&mut report, checkpoint.format());
            }
        }
        _ => {}
    }
    Ok(report)
}

/// [`scan`] of bytes in memory, without checking whether they can be converted.
///
/// # Errors
/// None that depend on the bytes.
pub fn scan_bytes(bytes: &[u8]) -> Result<ScanReport> {
    find::scan(&BytesSource(bytes), &ParseLimits::default())
}
