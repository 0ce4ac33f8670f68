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
    /// Single NumPy arrays, `.npy`
    Npy,
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

/// Bytes that tell the formats apart: an archive's first entry and its name.
const HEAD_BYTES: u64 = 512;

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
        ([0x93, b'N', b'U', b'M', b'P', b'Y', ..], _) => Format::Npy,
        ([b'P', b'K', 3, 4, ..], "npz") => Format::Npz,
        ([b'P', b'K', 3, 4, ..], "pth" | "pt") => Format::Pth,
        ([b'P', b'K', 3, 4, ..], _) if begins_with_array(head) => Format::Npz,
        ([b'P', b'K', 3, 4, ..], _) => Format::Pth,
        // A pickle: the legacy form of PyTorch, whatever the file is called.
        ([0x80, 2..=5, 0x8a, 10, ..], _) => Format::Pth,
        (_, "npz") => Format::Npz,
        (_, "npy") => Format::Npy,
        (_, "gguf") => Format::Gguf,
        (_, "pth" | "pt") => Format::Pth,
        _ => Format::Safetensors,
    }
}

/// Whether the first entry of a ZIP archive is an array by its name, which stands behind 30 bytes of header.
fn begins_with_array(head: &[u8]) -> bool {
    let Some(&[low, high]) = head.get(26..28).and_then(|bytes| bytes.first_chunk()) else { return false };
    let end = 30 + usize::from(u16::from_le_bytes([low, high]));
    head.get(30..end).is_some_and(|name| name.ends_with(b".npy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_before_the_name() {
        assert_eq!(by_content(b"GGUF", "safetensors"), Format::Gguf);
        assert_eq!(by_content(b"PK\x03\x04", "bin"), Format::Pth);
        assert_eq!(by_content(b"PK\x03\x04", "npz"), Format::Npz);
        assert_eq!(by_content(b"\x93NUMPY\x01\0", "bin"), Format::Npy);
        assert_eq!(by_content(b"\x10\0\0\0", "bin"), Format::Safetensors);
        assert_eq!(by_content(b"\x80\x02\x8a\x0a", "bin"), Format::Pth);
        assert_eq!(by_content(b"", "pt"), Format::Pth);
        assert_eq!(by_content(b"", ""), Format::Safetensors);
    }

    #[test]
    fn an_archive_without_a_telling_name_is_told_by_its_first_entry() {
        let archive = |name: &[u8]| [b"PK\x03\x04", &[0; 22][..], &[name.len() as u8, 0, 0, 0], name].concat();
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")), Format::Npz);
        assert_eq!(detect_format_from_bytes(&archive(b"m/data.pkl")), Format::Pth);
        assert_eq!(detect_format_from_bytes(&archive(b"a.npy")[..33]), Format::Pth);
        assert_eq!(by_content(&archive(b"a.npy"), "pt"), Format::Pth);
    }
}
