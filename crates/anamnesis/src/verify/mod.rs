//! Verification of checkpoints.

mod digests;

use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, is_in_store, resolve};
use crate::container::OpenOptions;
use crate::convert::unfinished_outputs;
use crate::error::{Fault, Result};
use crate::io::{PositionedRead, PositionedSource, entry, existing_entry, is_mounted};
use crate::limits::ParseLimits;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of weight files.
    pub files: usize,
    /// Number of stored tensors.
    pub tensors: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// All problems; empty for a complete and consistent checkpoint.
    pub problems: Vec<String>,
}

impl VerifyReport {
    /// Whether there are no problems.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Verifies that a checkpoint is complete and consistent: all files exist and have valid headers, index and
/// configuration match the tensors, every quantised weight has its companions, no file is partially written and, for
/// known architectures, the tensors are those that the configuration implies. Tensor data is read only if there are
/// checksums for it: in the format (NPZ and PyTorch archives), or in the file names of a store (Ollama, the Hugging
/// Face cache).
///
/// # Errors
/// `Io` if the checkpoint cannot be accessed, `Request` if the name is invalid; all other problems are in the report.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    verify_with_limits(path, &ParseLimits::default())
}

/// [`verify()`] within limits.
///
/// # Errors
/// As [`verify()`]. Exceeded limits are in the report.
pub fn verify_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<VerifyReport> {
    let path = path.as_ref();
    // Checked first, so that a wrong path is an error and not a problem of the checkpoint.
    if !is_in_store(path) {
        existing_entry(&resolve(path)?)?;
    }
    let mut report = VerifyReport::default();
    if entry(path)?.is_some_and(|entry| entry.is_folder()) && !is_mounted(path) {
        report.problems.extend(unfinished_outputs(path)?);
    }
    let mut files = Vec::new();
    match Checkpoint::open(path, limits) {
        Ok(checkpoint) => {
            files = checkpoint.files().to_vec();
            report.add_checkpoint(&checkpoint, Checkpoint::damage);
        }
        // An invalid request is not a problem of the checkpoint.
        Err(error) if error.fault() == Fault::Request => return Err(error),
        Err(error) => report.problems.push(error.to_string()),
    }
    if let Ok(place) = resolve(path) {
        report.problems.extend(digests::problems(&place, &files));
    }
    Ok(report)
}

/// [`verify`] of a file given by positioned reads, without sidecars.
///
/// # Errors
/// `Io` if the size cannot be determined; all other problems are in the report.
pub fn verify_positioned<R: PositionedRead + 'static>(reader: R, limits: &ParseLimits) -> Result<VerifyReport> {
    let reader = Arc::new(reader);
    let source = PositionedSource::new(Arc::clone(&reader))?;
    let mut report = VerifyReport::default();
    match Checkpoint::from_positioned(reader, &OpenOptions::new().with_limits(limits.clone())) {
        Ok(checkpoint) => report.add_checkpoint(&checkpoint, |checkpoint| checkpoint.damage_of(&source)),
        Err(error) => report.problems.push(error.to_string()),
    }
    Ok(report)
}

impl VerifyReport {
    fn add_checkpoint(&mut self, checkpoint: &Checkpoint, damage: impl FnOnce(&Checkpoint) -> Result<Vec<String>>) {
        let info = checkpoint.inspect(&Default::default());
        self.files = checkpoint.file_count();
        self.tensors = info.tensor_count;
        self.bytes = info.current_size;
        let is_claimed = info.problems.is_empty();
        self.problems.extend(info.problems);
        if is_claimed && let Err(error) = checkpoint.check_model() {
            self.problems.push(error.to_string());
        }
        match damage(checkpoint) {
            Ok(damage) => self.problems.extend(damage),
            Err(error) => self.problems.push(error.to_string()),
        }
    }
}
