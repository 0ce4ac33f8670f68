//! Whether a checkpoint is complete and sound.

mod digests;

use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, is_in_store, resolve};
use crate::container::OpenOptions;
use crate::convert::unfinished_outputs;
use crate::error::{Fault, Result};
use crate::io::{PositionedRead, PositionedSource};
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
/// with the tensors, every quantised weight with its companions, nothing half-written, and where the architecture is known, the
/// tensors those that the configuration implies. Tensor data is read only where there are checksums of it: in the format, as NPZ
/// and PyTorch archives have them, or in the name that a store gives to a file, as Ollama and the Hugging Face cache do.
///
/// # Errors
/// `Io` where the checkpoint cannot be looked at, at all, `Request` where what is asked for is no name of one; whatever is wrong
/// with it is in the report.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    verify_with_limits(path, &ParseLimits::default())
}

/// [`verify()`], with limits to what the checkpoint may ask for.
///
/// # Errors
/// As [`verify()`]. A checkpoint that asks for more has that in its report.
pub fn verify_with_limits(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<VerifyReport> {
    let path = path.as_ref();
    // Looked at first, so that a wrong path is an error and not a finding.
    if !is_in_store(path) {
        std::fs::metadata(path).map_err(|error| crate::error::AnamnesisError::at_path(error, path))?;
    }
    let mut report = VerifyReport::default();
    if path.is_dir() {
        report.problems.extend(unfinished_outputs(path)?);
    }
    let mut files = Vec::new();
    match Checkpoint::open(path, limits) {
        Ok(checkpoint) => {
            files = checkpoint.files().to_vec();
            report.look_at(&checkpoint, Checkpoint::damage);
        }
        // What was asked for is at fault, and no checkpoint.
        Err(error) if error.fault() == Fault::Request => return Err(error),
        Err(error) => report.problems.push(error.to_string()),
    }
    if let Ok(place) = resolve(path) {
        report.problems.extend(digests::problems(&place, &files));
    }
    Ok(report)
}

/// [`verify`] of bytes that can be read anywhere, such as an open file without a name. Nothing stands beside them.
///
/// # Errors
/// `Io` where their number cannot be told; whatever is wrong with them is in the report.
pub fn verify_positioned<R: PositionedRead + 'static>(reader: R, limits: &ParseLimits) -> Result<VerifyReport> {
    let reader = Arc::new(reader);
    let source = PositionedSource::new(Arc::clone(&reader))?;
    let mut report = VerifyReport::default();
    match Checkpoint::from_positioned(reader, &OpenOptions::new().with_limits(limits.clone())) {
        Ok(checkpoint) => report.look_at(&checkpoint, |checkpoint| checkpoint.damage_of(&source)),
        Err(error) => report.problems.push(error.to_string()),
    }
    Ok(report)
}

impl VerifyReport {
    fn look_at(&mut self, checkpoint: &Checkpoint, damage: impl FnOnce(&Checkpoint) -> Result<Vec<String>>) {
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
