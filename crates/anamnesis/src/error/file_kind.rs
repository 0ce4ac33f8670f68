//! What a file is that is no model.

use std::fmt;

/// What a file is that is no model, or not one of the format it was taken for.
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
    /// Nothing at all.
    Empty,
    /// The text that stands for a file which Git LFS has not downloaded.
    GitLfsPointer,
    /// A JSON document.
    Json,
    /// A page of the Web, as a failed download leaves it.
    Html,
    /// An XML document.
    Xml,
    /// Other text.
    Text,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by bzip2.
    Bzip2,
    /// A file compressed by xz.
    Xz,
    /// A file compressed by Zstandard.
    Zstandard,
    /// A 7z archive.
    SevenZip,
    /// A RAR archive.
    Rar,
    /// A tar file, which the first versions of PyTorch wrote, too.
    Tar,
    /// A ZIP archive of something else.
    Zip,
    /// An HDF5 file, as Keras writes them.
    Hdf5,
    /// An ONNX model.
    Onnx,
    /// A TensorFlow Lite model.
    TensorFlowLite,
    /// The weights of a Flax model in MessagePack.
    Flax,
    /// A file of ggml from before GGUF.
    Ggml,
    /// A tokenizer of SentencePiece.
    SentencePiece,
    /// A pickle that torch did not write.
    Pickle,
    /// What training leaves beside a model: the state of an optimizer, its arguments.
    TrainingState,
    /// A tensor file of another format than it was taken for, by the name of that format.
    OtherFormat(&'static str),
}

impl FileKind {
    /// Whether it has to be unpacked before anything can be said about what is in it.
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

/// As part of a sentence: `a JSON document`.
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
            Self::Tar => "a tar file, which versions of PyTorch before 0.1.10 wrote, too",
            Self::Zip => "a ZIP archive, such as a PyTorch file or an NPZ",
            Self::Hdf5 => "an HDF5 file",
            Self::Onnx => "an ONNX model",
            Self::TensorFlowLite => "a TensorFlow Lite model",
            Self::Flax => "the weights of a Flax model",
            Self::Ggml => "a file of ggml from before GGUF",
            Self::SentencePiece => "a SentencePiece tokenizer",
            Self::Pickle => "a Python pickle, but none that torch.save wrote",
            Self::TrainingState => "the state of a training run, not a model",
            Self::OtherFormat(name) => return write!(f, "a file of the format {name}"),
        })
    }
}
