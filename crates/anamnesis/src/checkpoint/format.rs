//! Telling file formats apart, by content first and by name where the content does not say.

use std::path::Path;

use crate::error::Result;
use crate::io::{FileSource, Source};

/// A tensor file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `.safetensors`
    Safetensors,
    /// PyTorch archives, `.pth`, `.pt`, `.bin`
    Pth,
    /// NumPy archives, `.npz`
    Npz,
    /// `.gguf`
    Gguf,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Pth => "pth",
            Self::Npz => "NPZ",
            Self::Gguf => "GGUF",
        }
    }
}

/// The format of a file, from its first bytes and its name.
///
/// # Errors
/// `Io` where the file cannot be read.
pub fn detect_format(path: &Path) -> Result<Format> {
    detect(Some(path), &FileSource::open(path)?)
}

/// The format of a file's bytes.
#[must_use]
pub fn detect_format_from_bytes(bytes: &[u8]) -> Format {
    by_content(bytes, "")
}

/// Bytes that tell the formats apart.
const HEAD_BYTES: u64 = 4;

pub(super) fn detect(path: Option<&Path>, source: &dyn Source) -> Result<Format> {
    let mut head = [0; HEAD_BYTES as usize];
    let head = &mut head[..source.len().min(HEAD_BYTES) as usize];
    source.read_at(0, head)?;
    let extension = path.and_then(Path::extension).unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    Ok(by_content(head, &extension))
}

fn by_content(head: &[u8], extension: &str) -> Format {
    match (head, extension) {
        ([b'G', b'G', b'U', b'F', ..], _) => Format::Gguf,
        ([b'P', b'K', 3, 4, ..], "npz") => Format::Npz,
        ([b'P', b'K', 3, 4, ..], _) => Format::Pth,
        (_, "npz") => Format::Npz,
        (_, "gguf") => Format::Gguf,
        (_, "pth" | "pt") => Format::Pth,
        _ => Format::Safetensors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_before_the_name() {
        assert_eq!(by_content(b"GGUF", "safetensors"), Format::Gguf);
        assert_eq!(by_content(b"PK\x03\x04", "bin"), Format::Pth);
        assert_eq!(by_content(b"PK\x03\x04", "npz"), Format::Npz);
        assert_eq!(by_content(b"\x10\0\0\0", "bin"), Format::Safetensors);
        assert_eq!(by_content(b"", "pt"), Format::Pth);
        assert_eq!(by_content(b"", ""), Format::Safetensors);
    }
}
