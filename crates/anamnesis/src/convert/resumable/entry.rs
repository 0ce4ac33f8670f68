//! Opening and closing an output directory: its lock, its manifest, and clean-up after a failure.
//!
//! A run locks the manifest of the directory: exclusively if it writes the whole output, shared if it writes one part
//! of it. A run that fails before it finished any file restores the directory; a run that is interrupted leaves its
//! finished files and the manifest, so that the same command can resume. A folder of a store has a manifest and no
//! locks: two runs of one conversion write the same bytes.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::manifest;
use crate::error::{AnamnesisError, Fault, Result};
use crate::io::output::create_folder;
use crate::io::temporary::{Lock, PARTIAL, is_linked, is_temporary, lock, lock_shared};
use crate::io::transaction::retry;
use crate::io::{entry, entry_names, is_mounted, remove};

/// Number of attempts, `PAUSE` apart, to find the manifest written by the first of several parts.
const ATTEMPTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// An output directory that this run may write to.
#[derive(Debug)]
pub(in crate::convert) struct Entry {
    /// The manifest, locked by this run; `None` in a store.
    manifest: Option<Arc<File>>,
    /// Whether this run created the directory.
    is_created: bool,
    is_part: bool,
}

impl Entry {
    /// Opens an output directory, creating it if necessary. Returns `None` if it contains files but no manifest.
    pub(in crate::convert) fn begin(output: &Path, manifest: &Value, is_part: bool) -> Result<Option<Self>> {
        if is_mounted(output) {
            let is_ours = begin_in_store(output, manifest)?;
            return Ok(is_ours.then_some(Self { manifest: None, is_created: false, is_part }));
        }
        let is_created = create_folder(output)?;
        let held = lock_manifest(output, manifest, is_part);
        if is_created && !matches!(held, Ok(Some(_))) {
            // Fails if another run has written into the directory by now, which is fine.
            let _ = retry(|| std::fs::remove_dir(output));
        }
        Ok(held?.map(|manifest| Self { manifest: Some(manifest), is_created, is_part }))
    }

    /// Closes a complete output directory: removes its manifest.
    pub(in crate::convert) fn finish(self, output: &Path) -> Result<()> {
        let path = output.join(manifest::FILE);
        let remove = || match remove(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        retry(remove).map_err(|error| AnamnesisError::at_path(error, &path))
    }

    /// Closes an incomplete output directory, which has the files `names` if they are complete, after `error`, and
    /// returns the error.
    pub(in crate::convert) fn abandon<'a>(
        self,
        names: impl Iterator<Item = &'a str>,
        output: &Path,
        error: AnamnesisError,
    ) -> AnamnesisError {
        let is_alone = match self.manifest.as_ref().map_or(Lock::Unknown, |manifest| lock(manifest)) {
            Lock::Ours => true,
            Lock::Others => false,
            Lock::Unknown => !self.is_part,
        };
        if !is_alone {
            return error;
        }
        // An error caused by the input or the request would recur, so that the finished files are of no use.
        let is_hopeless = matches!(error.fault(), Fault::File | Fault::Request) && !self.is_part;
        let mut is_left = false;
        for name in names {
            let path = output.join(name);
            is_left |= is_there(&path) && !(is_hopeless && remove(&path).is_ok());
        }
        if is_left || retry(|| remove(&output.join(manifest::FILE))).is_err() {
            return error;
        }
        // Windows removes a file when it is closed.
        drop(self.manifest);
        if self.is_created {
            let _ = retry(|| std::fs::remove_dir(output));
        }
        error
    }
}

/// Whether there is something of this name. A store that does not answer may have it.
fn is_there(path: &Path) -> bool {
    match is_mounted(path) {
        true => !matches!(entry(path), Ok(None)),
        false => path.symlink_metadata().is_ok(),
    }
}

/// Finds the manifest of this conversion in a folder of a store, or writes it; `false` if the folder has other files.
fn begin_in_store(output: &Path, manifest: &Value) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        if let Some(found) = manifest::read(output)? {
            manifest::compare(&found, manifest)?;
            return Ok(true);
        }
        if !is_vacant(output)? {
            return Ok(false);
        }
        match manifest::write(output, manifest) {
            Ok(_) => return Ok(true),
            // Another part has written it, and the list does not have it yet.
            Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::AlreadyExists => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    let busy = Error::new(ErrorKind::ResourceBusy, "another process is writing into this folder");
    Err(AnamnesisError::at_path(busy, output))
}

/// Locks the manifest of a directory, writing it first if there is none.
fn lock_manifest(output: &Path, manifest: &Value, is_part: bool) -> Result<Option<Arc<File>>> {
    let path = output.join(manifest::FILE);
    let take = if is_part { lock_shared } else { lock };
    for _ in 0..ATTEMPTS {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !is_vacant(output)? {
                    return Ok(None);
                }
                match manifest::write(output, manifest) {
                    Ok(file) => {
                        if let Some(file) = file.as_ref().filter(|_| is_part) {
                            lock_shared(file);
                        }
                        return Ok(file);
                    }
                    // Another run created the manifest first; read that.
                    Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(AnamnesisError::at_path(error, &path)),
        };
        match take(&file) {
            // The first of several parts is about to change its exclusive lock to a shared one.
            Lock::Others if is_part => std::thread::sleep(PAUSE),
            Lock::Others => break,
            // If the manifest is gone, its run has just finished.
            Lock::Ours | Lock::Unknown => {
                if is_linked(&file).map_err(|error| AnamnesisError::at_path(error, &path))?
                    && let Some(found) = manifest::read(output)?
                {
                    manifest::compare(&found, manifest)?;
                    return Ok(Some(Arc::new(file)));
                }
            }
        }
    }
    let busy = Error::new(ErrorKind::ResourceBusy, "another process is writing into this directory");
    Err(AnamnesisError::at_path(busy, output))
}

/// Whether the directory does not exist, is empty, or has only the partial manifest of a killed run.
pub(in crate::convert) fn is_vacant(directory: &Path) -> Result<bool> {
    let at = |error| AnamnesisError::at_path(error, directory);
    if is_mounted(directory) {
        return Ok(entry_names(directory)?.is_empty());
    }
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(at)?,
    };
    for entry in entries {
        let name = entry.map_err(at)?.file_name();
        if !name.to_str().is_some_and(|name| is_temporary(name, manifest::FILE, PARTIAL)) {
            return Ok(false);
        }
    }
    Ok(true)
}
