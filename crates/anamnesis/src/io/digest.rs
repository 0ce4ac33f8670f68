//! Digests that content-addressed stores use as file names.

use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::Source;
use super::place::open_file;
use crate::error::Result;

/// A digest algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DigestKind {
    /// SHA-256 of the bytes.
    Sha256,
    /// SHA-1 of a Git blob: `blob`, the length and a zero, then the bytes.
    GitBlob,
}

/// Bytes read at a time.
const PIECE_BYTES: u64 = 1 << 20;

impl DigestKind {
    /// The digest of a file in hexadecimal.
    pub(crate) fn of(self, file: &dyn Source) -> Result<String> {
        match self {
            Self::Sha256 => digest_of(Sha256::new(), file),
            Self::GitBlob => digest_of(Sha1::new_with_prefix(format!("blob {}\0", file.len())), file),
        }
    }
}

/// The SHA-256 of a file in hexadecimal, as `sha256sum` prints it; of a file of a mounted store, too.
///
/// # Errors
/// `Io` if it is no regular file, or cannot be read.
///
/// ```no_run
/// println!("{}", anamnesis::file_sha256("model.safetensors")?);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub fn file_sha256(path: impl AsRef<Path>) -> Result<String> {
    DigestKind::Sha256.of(&*open_file(path.as_ref())?)
}

/// The SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn digest_of(mut hasher: impl Digest, file: &dyn Source) -> Result<String> {
    let mut buffer = vec![0; file.len().min(PIECE_BYTES) as usize];
    let mut at = 0;
    while at < file.len() {
        let piece = (file.len() - at).min(PIECE_BYTES);
        let bytes = &mut buffer[..piece as usize];
        file.read_at(at, bytes)?;
        hasher.update(&*bytes);
        at += piece;
    }
    Ok(hexadecimal(&hasher.finalize()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::*;

    #[test]
    fn digests_are_those_of_sha256sum_and_of_git_hash_object() {
        let of = |kind: DigestKind, bytes: &[u8]| kind.of(&BytesSource(bytes)).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((of(DigestKind::Sha256, b"abc").as_str(), sha256(b"abc").as_str()), (abc, abc));
        assert_eq!(of(DigestKind::GitBlob, b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(of(DigestKind::GitBlob, b"test content\n"), "d670460b4b4aece5915caf5c68d12f560a9fe3e4");
        // One million `a`, hashed in pieces.
        let million = vec![b'a'; 1_000_000];
        let wanted = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(of(DigestKind::Sha256, &million), wanted);
        let long = vec![7; 2 * PIECE_BYTES as usize + 5];
        assert_eq!(of(DigestKind::Sha256, &long), sha256(&long));
    }
}
