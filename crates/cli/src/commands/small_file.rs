//! Small output files, which appear complete or not at all.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anamnesis::AnamnesisError;
use tempfile::NamedTempFile;

use super::{output_path, shown};
use crate::exit::Failure;

/// A file that is being written.
pub(super) type SmallFile = BufWriter<NamedTempFile>;

/// Writes a file with `fill` and returns its size.
pub(super) fn write(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut SmallFile) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    output_path::check(path)?;
    if !force && path.exists() {
        let text = format!("{} exists", shown(path));
        let error = AnamnesisError::Io(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
        return Err(Failure::Refused { error, advice: Some("--force replaces it".to_owned()) });
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(PathBuf::from("."), PathBuf::from);
    let named = named(path);
    let mut out = BufWriter::new(temporary(&folder).map_err(&named)?);
    fill(&mut out)?;
    let file = out.into_inner().map_err(|error| named(error.into_error()))?;
    let bytes = file.as_file().metadata().map_err(&named)?.len();
    let kept = if force { file.persist(path).map(drop) } else { file.persist_noclobber(path).map(drop) };
    kept.map_err(|error| named(error.error))?;
    Ok(bytes)
}

/// Adds the path to an error.
pub(super) fn named(path: &Path) -> impl Fn(std::io::Error) -> AnamnesisError {
    move |error| AnamnesisError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", shown(path))))
}

/// A temporary file with the permissions of an ordinary one.
fn temporary(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
