//! Identity of a container: its format, its extensions, and how well a file matches it.

use super::interface::{Container, Evidence};

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
    /// Models of whisper.cpp, `ggml-*.bin`
    Whisper,
    /// `.onnx`
    Onnx,
    /// PyTorch distributed checkpoints: directories of `.metadata` and `.distcp` files
    Distributed,
    /// TensorFlow Lite models, `.tflite`
    TfLite,
    /// TensorFlow checkpoints, `.index` with its data files
    TensorFlow,
    /// Flax parameters in MessagePack, `.msgpack`
    Flax,
    /// HDF5 files, `.h5`, as Keras writes them
    Hdf5,
    /// Keras archives, `.keras`
    Keras,
}

/// Description of a container.
pub(crate) struct About {
    pub format: Format,
    pub name: &'static str,
    /// Noun phrase for one of its files, used in error messages.
    pub file: &'static str,
    /// File extensions without dots, the usual one first.
    pub extensions: &'static [&'static str],
    /// Extensions that other formats use too, which therefore do not identify this one.
    pub shared_extensions: &'static [&'static str],
    pub writes: bool,
    /// Whether the files of a split model are slices of one file, so that they are merged into one.
    pub parts_are_one_file: bool,
    pub container: &'static dyn Container,
}

/// How well a file matches a format, the strongest last. Content outranks the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    Possible,
    Ambiguous,
    Extension,
    Probable,
    Certain,
    ContentAndExtension,
}

impl About {
    /// Whether this extension (lower case) identifies the format.
    pub(crate) fn owns_extension(&self, extension: &str) -> bool {
        self.extensions.contains(&extension) && !self.shared_extensions.contains(&extension)
    }

    /// How well a file matches, by its first bytes and its extension (lower case).
    pub(super) fn matches(&self, head: &[u8], extension: &str) -> Match {
        match (self.container.recognises(head), self.owns_extension(extension)) {
            (Evidence::Ambiguous | Evidence::Probable | Evidence::Certain, true) => Match::ContentAndExtension,
            (Evidence::Certain, false) => Match::Certain,
            (Evidence::Probable, false) => Match::Probable,
            (_, true) => Match::Extension,
            (Evidence::Ambiguous, false) => Match::Ambiguous,
            (Evidence::Possible, false) => Match::Possible,
            (Evidence::No, false) => Match::No,
        }
    }
}
