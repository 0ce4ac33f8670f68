//! Errors of entry points for a single format: the actual format of a file, in the error variants of earlier versions.

use crate::container::{Format, explain};
use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

/// Explains an error of reading `source` as a file of `format`.
pub(super) fn explained<T>(result: Result<T>, format: Format, source: &(impl ReadAt + ?Sized)) -> Result<T> {
    result.map_err(|error| match source.head() {
        Ok(head) => explain_head(error, format, &head),
        Err(_) => error.for_single_format(),
    })
}

/// Explains an error by the first bytes of the file.
pub(super) fn explain_head(error: AnamnesisError, format: Format, head: &[u8]) -> AnamnesisError {
    explain(error, format, head).for_single_format()
}
