//! Errors of the entry points that take files of one format: what a file is instead, in the variants that their callers know.

use crate::container::{Format, explain};
use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

/// The result of reading `source` as a file of `format`.
pub(super) fn explained<T>(result: Result<T>, format: Format, source: &(impl ReadAt + ?Sized)) -> Result<T> {
    result.map_err(|error| match source.head() {
        Ok(head) => told(error, format, &head),
        Err(_) => error.for_single_format(),
    })
}

/// The same where the first bytes are known.
pub(super) fn told(error: AnamnesisError, format: Format, head: &[u8]) -> AnamnesisError {
    explain(error, format, head, "").for_single_format()
}
