//! What the pickles of a file refer to, without running any of them.
//!
//! A pickle is a program: loading one with Python can run anything. [`scan`] runs it on a machine that calls nothing and lists
//! every name it would import, with the place it does so and whether a conversion would accept it.

mod find;
mod report;
mod watch;

use std::path::Path;

use crate::error::Result;
use crate::io::{BytesSource, FileSource};

pub use report::{ScanReport, ScanVerdict, ScannedGlobal, ScannedPickle};

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
    find::scan(&FileSource::open(path.as_ref())?)
}

/// [`scan`] of bytes in memory.
///
/// # Errors
/// None that depend on the bytes.
pub fn scan_bytes(bytes: &[u8]) -> Result<ScanReport> {
    find::scan(&BytesSource(bytes))
}
