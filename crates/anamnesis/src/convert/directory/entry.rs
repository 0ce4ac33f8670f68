//! Entering an output directory and leaving it: whose it is, and what is left of it.
//!
//! A run holds the directory by a lock on its manifest: alone where it writes all of it, :transaction:x with others where it writes
//! a part. A run that fails with nothing finished leaves the directory as it was; one that is stopped leaves what it had finished,
//! with the manifest, so that the same command goes on.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{DirectoryPlan, manifest};
use crate::error::{AnamnesisError, Fault, Result};
use crate::io::temporary::{Lock, PARTIAL, is_linked, is_temporary, lock, lock_shared};
use crate::io::transaction::retry;

/// How long the first of several parts may take to write the manifest.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A directory that this run may write into.
#[derive(Debug)]
pub(super) struct Entry {
    /// What this run holds.
    manifest: Arc<File>,
    /// Whether the directory was not there before.
    is_created: bool,
    is_part: bool,
}

impl Entry {
    /// Enters a directory, which is created where it is not there. `None` where it has files, and no manifest.
    pub(super) fn begin(output: &Path, manifest: &Value, is_part: bool) -> Result<Option<Self>> {
        let is_created = match std::fs::create_dir(output) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists && output.is_dir() => false,
            Err(error) => return Err(AnamnesisError::at_path(error, output)),
        };
        let held = hold(output, manifest, is_part);
        if is_created && !matches!(held, Ok(Some(_))) {
            // Not where another run has come between.
            let _ = retry(|| std::fs::remove_dir(output));
        }
        Ok(held?.map(|manifest| Self { manifest, is_created, is_part }))
    }

    /// Ends with a directory that has everything.
    pub(super) fn finish(self, output: &Path) -> Result<()> {
        let path = output.join(manifest::FILE);
        let remove = || match std::fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        retry(remove).map_err(|error| AnamnesisError::at_path(error, &path))
    }

    /// Ends with a directory that has not everything, and says why.
    pub(super) fn leave(self, plan: &DirectoryPlan, output: &Path, error: AnamnesisError) -> AnamnesisError {
        let is_alone = match lock(&self.manifest) {
            Lock::Ours => true,
            Lock::Others => false,
            Lock::Unknown => !self.is_part,
        };
        if !is_alone {
            return error;
        }
        // What the input or the request is at fault for, the same run would meet again: nothing of it is of use.
        let is_hopeless = matches!(error.fault(), Fault::File | Fault::Request) && !self.is_part;
        let mut is_left = false;
        for shard in &plan.shards {
            let path = output.join(&shard.name);
            is_left |= path.symlink_metadata().is_ok() && !(is_hopeless && std::fs::remove_file(&path).is_ok());
        }
        if !is_left && retry(|| std::fs::remove_file(output.join(manifest::FILE))).is_ok() && self.is_created {
            let _ = retry(|| std::fs::remove_dir(output));
        }
        error
    }
}

/// Holds the manifest of a directory, which is written where there is none.
fn hold(output: &Path, manifest: &Value, is_part: bool) -> Result<Option<Arc<File>>> {
    let path = output.join(manifest::FILE);
    let take = if is_part { lock_shared } else { lock };
    for _ in 0..TRIES {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !is_vacant(output)? {
                    return Ok(None);
                }
                match manifest::write(output, manifest) {
                    Ok(file) => {
                        if is_part {
                            lock_shared(&file);
                        }
                        return Ok(Some(file));
                    }
                    // Another was faster.
                    Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(AnamnesisError::at_path(error, &path)),
        };
        match take(&file) {
            // The first of several parts is about to lock_shared it.
            Lock::Others if is_part => std::thread::sleep(PAUSE),
            Lock::Others => break,
            // Otherwise its run has just finished.
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

/// Whether nothing is there, or nothing but a manifest that a killed run had begun to write.
pub(super) fn is_vacant(directory: &Path) -> Result<bool> {
    let at = |error| AnamnesisError::at_path(error, directory);
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
