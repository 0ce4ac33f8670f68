//! I/O errors with their path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::text::{MAX_TEXT_CHARS, printable};

/// The payload of an [`io::Error`]: path and text.
#[derive(Debug)]
struct AtPath {
    path: PathBuf,
    text: String,
}

impl fmt::Display for AtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for AtPath {}

/// Adds the path to an error, in its text and as data; the kind is unchanged.
pub(super) fn new(error: &io::Error, path: &Path) -> io::Error {
    let text = format!("{}: {error}", printable(&path.to_string_lossy(), MAX_TEXT_CHARS));
    io::Error::new(error.kind(), AtPath { path: path.to_path_buf(), text })
}

/// The path of an error, if known.
pub(super) fn path(error: &io::Error) -> Option<&Path> {
    Some(&error.get_ref()?.downcast_ref::<AtPath>()?.path)
}

/// Replaces the text of an error; kind and path are unchanged.
pub(super) fn with_text(error: &io::Error, text: String) -> io::Error {
    match path(error) {
        Some(path) => io::Error::new(error.kind(), AtPath { path: path.to_path_buf(), text }),
        None => io::Error::new(error.kind(), text),
    }
}
