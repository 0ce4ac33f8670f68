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

use crate::catalog::TargetDtype;
use crate::checkpoint::Checkpoint;
use crate::error::{AnamnesisError, Result};
use crate::io::{BytesSource, FileSource};
use crate::limits::ParseLimits;

pub use folder::{ScannedFile, scan_all};
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
    let path = path.as_ref();
    let mut report = find::scan(&FileSource::open(path)?)?;
    if report.verdict() == ScanVerdict::Safe {
        report.refusal = refusal(path)?;
    }
    Ok(report)
}

/// Why a conversion of this file by itself is refused: what it would plan is planned.
fn refusal(path: &Path) -> Result<Option<String>> {
    let checkpoint = Checkpoint::open_file(path, &ParseLimits::default());
    match checkpoint.and_then(|checkpoint| checkpoint.plan(TargetDtype::BF16).map(drop)) {
        Ok(()) => Ok(None),
        Err(AnamnesisError::Io(error)) => Err(AnamnesisError::Io(error)),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// [`scan`] of bytes in memory. Whether they would be converted is not looked at.
///
/// # Errors
/// None that depend on the bytes.
pub fn scan_bytes(bytes: &[u8]) -> Result<ScanReport> {
    find::scan(&BytesSource(bytes))
}
