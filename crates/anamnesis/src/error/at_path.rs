//! I/O errors that know their file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::text::{MAX_TEXT_CHARS, printable};

/// What an [`io::Error`] carries: the file it happened at, beside the text.
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

/// `error` with the file it happened at, in its text and as data; its kind stays.
pub(super) fn new(error: &io::Error, path: &Path) -> io::Error {
    let text = format!("{}: {error}", printable(&path.to_string_lossy(), MAX_TEXT_CHARS));
    io::Error::new(error.kind(), AtPath { path: path.to_path_buf(), text })
}

/// The file that an error happened at, where it knows.
pub(super) fn path(error: &io::Error) -> Option<&Path> {
    Some(&error.get_ref()?.downcast_ref::<AtPath>()?.path)
}

/// `error` with another text; its kind and its file stay.
pub(super) fn with_text(error: &io::Error, text: String) -> io::Error {
    match path(error) {
        Some(path) => io::Error::new(error.kind(), AtPath { path: path.to_path_buf(), text }),
        None => io::Error::new(error.kind(), text),
    }
}
