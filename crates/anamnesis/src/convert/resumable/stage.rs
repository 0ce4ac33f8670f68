//! A folder in which the files of an output are completed before they appear together.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::entry::Entry;
use crate::error::{AnamnesisError, Result};
use crate::io::transaction::retry;

/// Attempts, `PAUSE` apart, to open a folder that other runs create and remove.
const ATTEMPTS: usize = 16;
const PAUSE: Duration = Duration::from_millis(10);

/// A staging folder that this run has locked.
pub(in crate::convert) struct Stage {
    folder: PathBuf,
    entry: Entry,
}

impl Stage {
    /// Opens the folder, with the complete files of an earlier run of the same conversion. Those of another conversion
    /// are discarded.
    pub(in crate::convert) fn begin(folder: PathBuf, manifest: &Value) -> Result<Self> {
        for attempt in 0..ATTEMPTS {
            match Entry::begin(&folder, manifest, false) {
                Ok(Some(entry)) => return Ok(Self { folder, entry }),
                // Another run is just beginning or finishing.
                Ok(None) if attempt + 2 < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::NotFound => std::thread::sleep(PAUSE),
                Ok(None) | Err(AnamnesisError::OtherPlan { .. }) => {
                    std::fs::remove_dir_all(&folder).map_err(|error| AnamnesisError::at_path(error, &folder))?;
                }
                Err(error) => return Err(error),
            }
        }
        let busy = std::io::Error::new(ErrorKind::ResourceBusy, "another process is writing into it");
        Err(AnamnesisError::at_path(busy, &folder))
    }

    pub(in crate::convert) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes the folder after `error`, and returns the error. Complete files with these names stay.
    pub(in crate::convert) fn abandon<'a>(
        self,
        names: impl Iterator<Item = &'a str>,
        error: AnamnesisError,
    ) -> AnamnesisError {
        let error = self.entry.abandon(names, &self.folder, error);
        // Succeeds only if nothing was finished.
        let _ = retry(|| std::fs::remove_dir(&self.folder));
        error
    }

    /// Removes the folder once its files have been moved out.
    pub(in crate::convert) fn finish(self) -> Result<()> {
        self.entry.finish(&self.folder)?;
        // Another run may have begun there by now.
        let _ = retry(|| std::fs::remove_dir(&self.folder));
        Ok(())
    }
}
