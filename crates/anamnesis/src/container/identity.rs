//! What a container is: its format, and how its files are told from others.

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
}

/// What a container says of itself.
pub(crate) struct About {
    pub format: Format,
    pub name: &'static str,
    /// One of its files, in a sentence.
    pub file: &'static str,
    /// The endings of its files, the usual one first, without dots.
    pub extensions: &'static [&'static str],
    /// Those of them that files of other formats have as well, so that they tell nothing.
    pub shared_extensions: &'static [&'static str],
    pub writes: bool,
    /// Whether the parts of a split model are one file that was cut, so that together they become one again.
    pub parts_are_one_file: bool,
    pub container: &'static dyn Container,
}

/// How surely a file is of a format, the surest last: what it holds counts more than what it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    Possible,
    Alike,
    Ending,
    Probable,
    Certain,
    ContentAndEnding,
}

impl About {
    /// Whether a name with this ending, in lower case, says that a file is of this format.
    pub(crate) fn is_told_by(&self, ending: &str) -> bool {
        self.extensions.contains(&ending) && !self.shared_extensions.contains(&ending)
    }

    /// How surely a file is of this format, by its first bytes and the ending of its name in lower case.
    pub(super) fn matches(&self, head: &[u8], ending: &str) -> Match {
        match (self.container.recognises(head), self.is_told_by(ending)) {
            (Evidence::Alike | Evidence::Probable | Evidence::Certain, true) => Match::ContentAndEnding,
            (Evidence::Certain, false) => Match::Certain,
            (Evidence::Probable, false) => Match::Probable,
            (_, true) => Match::Ending,
            (Evidence::Alike, false) => Match::Alike,
            (Evidence::Possible, false) => Match::Possible,
            (Evidence::No, false) => Match::No,
        }
    }
}
