//! Coders fail closed: a tile that is not written to its end is an error, never what was in the buffer before.

use crate::error::{AnamnesisError, Result};

/// Refuses an output that was not written to its end: what is behind came from another tile.
pub(crate) fn filled(written: usize, wanted: usize) -> Result<()> {
    match written == wanted {
        true => Ok(()),
        false => Err(AnamnesisError::internal(format!("{written} of {wanted} were written"))),
    }
}

/// The error of a coder that was handed other inputs or outputs than it asked for.
pub(crate) fn mishandled(what: &str) -> AnamnesisError {
    AnamnesisError::internal(format!("a coder was handed {what} it did not ask for"))
}
