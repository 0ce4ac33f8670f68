//! Coders fail closed: an incompletely written tile is an error, so that stale data of the buffer never reaches a file.

use crate::error::{AnamnesisError, Result};

/// Refuses an output that was written incompletely: the rest of the buffer has data of another tile.
pub(crate) fn filled(written: usize, wanted: usize) -> Result<()> {
    match written == wanted {
        true => Ok(()),
        false => Err(AnamnesisError::internal(format!("a coder wrote {written} of {wanted} bytes or values"))),
    }
}

/// The internal error of a coder that was called with inputs or outputs it cannot handle.
pub(crate) fn mishandled(what: &str) -> AnamnesisError {
    AnamnesisError::internal(format!("a coder was handed {what}"))
}
