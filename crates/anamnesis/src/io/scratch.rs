//! Unnamed files in the system's directory for temporary files.

use std::fs::File;
use std::io::Result;

/// Whether the system has temporary files. WebAssembly without an operating system has none, and the standard library
/// panics there if it is asked for their directory.
pub(crate) const HAS_SCRATCH_FILES: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Creates an unnamed file that the system removes when it is closed.
///
/// # Errors
/// `Unsupported` if the system has no temporary files, and those of the file system.
pub(crate) fn scratch_file() -> Result<File> {
    if !HAS_SCRATCH_FILES {
        return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this platform has no temporary files"));
    }
    tempfile::tempfile()
}
