//! Small output files, which appear complete or not at all.

use std::io::BufWriter;
use std::path::Path;

use anamnesis::{AnamnesisError, AtomicFile, Existing};

use super::{output_path, shown};
use crate::exit::Failure;

/// A file that is being written.
pub(super) type SmallFile = BufWriter<AtomicFile>;

/// Writes a file with `fill` and returns its size.
pub(super) fn write(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut SmallFile) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    output_path::check(path)?;
    refuse_existing(path, force)?;
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    let mut out = BufWriter::new(AtomicFile::create(path, existing)?);
    fill(&mut out)?;
    let file = out.into_inner().map_err(|error| AnamnesisError::Io(error.into_error()))?;
    Ok(file.commit()?)
}

/// Refuses to replace a file without `--force`.
pub(super) fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    if !force && path.exists() {
        let text = format!("{} exists", shown(path));
        let error = AnamnesisError::Io(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
        return Err(Failure::Refused { error, advice: Some("--force replaces it".to_owned()) });
    }
    Ok(())
}
