//! Paths in messages.

use std::path::Path;

use anamnesis::error::printable;

/// Maximum characters of a path.
const MAX_PATH_CHARS: usize = 4096;

/// A path, escaped for a terminal.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy(), MAX_PATH_CHARS)
}
