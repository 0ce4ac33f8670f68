//! What the pickles of a file refer to, without running any of them.
//!
//! A pickle is a program: loading one with Python can run anything. [`scan`] runs it on a machine that calls nothing and lists
//! every name it would import, with the place it does so and whether a conversion would accept it.

mod find;
mod folder;
mod grade;
mod report;
mod watch;

use std::path::Path;
use std::sync::Arc;

use crate::catalog::TargetDtype;
use crate::checkpoint::Checkpoint;
use crate::container::OpenOptions;
use crate::error::{AnamnesisError, Result};
use crate::io::{BytesSource, FileSource, PositionedRead, PositionedSource};
use crate::limits::ParseLimits;

pub use folder::{ScannedFile, scan_all, scan_all_with_limits};
pub use report::{Grade, ScanReport, ScanVerdict, ScannedGlobal, ScannedPickle};

/// Lists what the pickles of a file refer to: of every pickle in an archive, of a legacy PyTorch stream, of a bare pickle and
/// of NumPy arrays of objects. The content decides what a file is, not its name.
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
/// `Io` where the file cannot be read. What is wrong with its content is part of the report.
pub fn scan(path: impl AsRef<Path>) -> Result<ScanReport> {
    within(path.as_ref(), &ParseLimits::default())
}

fn within(path: &Path, limits: &ParseLimits) -> Result<ScanReport> {
    let report = find::scan(&FileSource::open(path)?, limits)?;
    judged(report, || Checkpoint::open_file(path, limits))
}

/// [`scan`] of bytes that can be read anywhere, such as an open file without a name.
///
/// # Errors
/// As [`scan`].
pub fn scan_positioned<R: PositionedRead + 'static>(reader: R, limits: &ParseLimits) -> Result<ScanReport> {
    let reader = Arc::new(reader);
    let report = find::scan(&PositionedSource::new(Arc::clone(&reader))?, limits)?;
    judged(report, || Checkpoint::from_positioned(reader, &OpenOptions::new().with_limits(limits.clone())))
}

/// The report with why a conversion of a file by itself is refused whose loaded pickles are safe: what it would plan is planned.
fn judged(mut report: ScanReport, open: impl FnOnce() -> Result<Checkpoint>) -> Result<ScanReport> {
    if matches!(report.verdict(), ScanVerdict::Safe | ScanVerdict::RefersToCodeUnloaded) {
        report.refusal = match open().and_then(|checkpoint| checkpoint.plan(TargetDtype::BF16).map(drop)) {
            Ok(()) => None,
            Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
            Err(error) => Some(error.to_string()),
        };
    }
    Ok(report)
}

/// [`scan`] of bytes in memory. Whether they would be converted is not looked at.
///
/// # Errors
/// None that depend on the bytes.
pub fn scan_bytes(bytes: &[u8]) -> Result<ScanReport> {
    find::scan(&BytesSource(bytes), &ParseLimits::default())
}
