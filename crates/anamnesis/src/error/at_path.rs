//! I/O errors with their path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::text::{MAX_TEXT_CHARS, printable};

/// The payload of an [`io::Error`]: path and text.
#[derive(Debug)]
struct AtPath {
    path: PathBuf,
    text: String,
    /// The error of a store, which front ends may recognise.
    cause: Option<Arc<io::Error>>,
}

impl fmt::Display for AtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for AtPath {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

/// Adds the path to an error, in its text and as data; the kind is unchanged.
pub(super) fn new(error: io::Error, path: &Path) -> io::Error {
    let text = format!("{}: {error}", printable(&path.to_string_lossy(), MAX_TEXT_CHARS));
    let kind = error.kind();
    let cause = error.get_ref().is_some().then(|| Arc::new(error));
    io::Error::new(kind, AtPath { path: path.to_path_buf(), text, cause })
}

fn at_path(error: &io::Error) -> Option<&AtPath> {
    error.get_ref()?.downcast_ref()
}

/// The path of an error, if known.
pub(super) fn path(error: &io::Error) -> Option<&Path> {
    Some(&at_path(error)?.path)
}

/// Replaces the text of an error; kind and path are unchanged.
pub(super) fn with_text(error: &io::Error, text: String) -> io::Error {
    match at_path(error) {
        Some(AtPath { path, cause, .. }) => {
            io::Error::new(error.kind(), AtPath { path: path.clone(), text, cause: cause.clone() })
        }
        None => io::Error::new(error.kind(), text),
    }
}
