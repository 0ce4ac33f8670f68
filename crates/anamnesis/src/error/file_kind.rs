//! Kinds of files that are not models.

use std::fmt;

/// The kind of a file that is not a model, or not of the expected format.
///
/// ```
/// use anamnesis::{AnamnesisError, FileKind, detect_format_from_bytes};
/// let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
/// let error = detect_format_from_bytes(pointer).unwrap_err();
/// assert!(matches!(error, AnamnesisError::NotAModel { kind: FileKind::GitLfsPointer, .. }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// An empty file.
    Empty,
    /// A Git LFS pointer: the file itself has not been downloaded.
    GitLfsPointer,
    /// A JSON document.
    Json,
    /// An HTML page, typically from a failed download.
    Html,
    /// An XML document.
    Xml,
    /// Other text.
    Text,
    /// A gzip file.
    Gzip,
    /// A bzip2 file.
    Bzip2,
    /// An xz file.
    Xz,
    /// A Zstandard file.
    Zstandard,
    /// A 7z archive.
    SevenZip,
    /// A RAR archive.
    Rar,
    /// A tar file, also the format of the first versions of PyTorch.
    Tar,
    /// Any other ZIP archive.
    Zip,
    /// A ggml file older than GGUF.
    Ggml,
    /// A SentencePiece tokenizer.
    SentencePiece,
    /// A pickle that was not written by `torch.save`.
    Pickle,
    /// Training state: optimizer state or training arguments.
    TrainingState,
    /// A model of a format that is known and not read, by its name.
    Unread(&'static str),
    /// A tensor file of another format, by its name.
    OtherFormat(&'static str),
}

impl FileKind {
    /// Whether it has to be unpacked before its content is known.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        matches!(self, Self::Gzip | Self::Bzip2 | Self::Xz | Self::Zstandard | Self::SevenZip | Self::Rar | Self::Tar)
    }

    /// Whether it is text of any kind.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::GitLfsPointer | Self::Json | Self::Html | Self::Xml | Self::Text)
    }
}

/// As a noun phrase: `a JSON document`.
impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty file",
            Self::GitLfsPointer => "a Git LFS pointer, not the file itself",
            Self::Json => "a JSON document",
            Self::Html => "an HTML page, as a failed download leaves it",
            Self::Xml => "an XML document",
            Self::Text => "a text document",
            Self::Gzip => "a gzip file",
            Self::Bzip2 => "a bzip2 file",
            Self::Xz => "an xz file",
            Self::Zstandard => "a Zstandard file",
            Self::SevenZip => "a 7z archive",
            Self::Rar => "a RAR archive",
            Self::Tar => "a tar file, also the format of PyTorch before 0.1.10",
            Self::Zip => "a ZIP archive, such as a PyTorch file or an NPZ",
            Self::Ggml => "a ggml file older than GGUF",
            Self::SentencePiece => "a SentencePiece tokenizer",
            Self::Pickle => "a Python pickle that was not written by torch.save",
            Self::TrainingState => "the state of a training run, not a model",
            Self::Unread(name) => return write!(f, "a model of the format {name}, which is not read"),
            Self::OtherFormat(name) => return write!(f, "a file of the format {name}"),
        })
    }
}
