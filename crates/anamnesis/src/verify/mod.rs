//! Whether a checkpoint is complete and sound.

use std::path::Path;

use crate::checkpoint::{Checkpoint, is_in_store};
use crate::convert::unfinished_outputs;
use crate::error::Result;
use crate::limits::ParseLimits;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Files of weights.
    pub files: usize,
    /// Stored tensors.
    pub tensors: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Everything that is wrong; empty where the checkpoint is complete and sound.
    pub problems: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks that a checkpoint is complete and sound: every file there with a valid header, index and configuration consistent
/// with the tensors, every quantised weight with its companions, nothing half-written. Tensor data is read only where the
/// format carries checksums of it, as NPZ and PyTorch archives do.
///
/// # Errors
/// `Io` where the checkpoint cannot be looked at, at all; whatever is wrong with it is in the report.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    let path = path.as_ref();
    // Looked at first, so that a wrong path is an error and not a finding.
    if !is_in_store(path) {
        std::fs::metadata(path).map_err(|error| crate::error::AnamnesisError::at_path(error, path))?;
    }
    let mut report = VerifyReport::default();
    if path.is_dir() {
        report.problems.extend(unfinished_outputs(path)?);
    }
    match Checkpoint::open(path, &ParseLimits::default()) {
        Ok(checkpoint) => {
            let info = checkpoint.inspect(&Default::default());
            report.files = checkpoint.file_count();
            report.tensors = info.tensor_count;
            report.bytes = info.current_size;
            report.problems.extend(info.problems);
            match checkpoint.damage() {
                Ok(damage) => report.problems.extend(damage),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    Ok(report)
}
