//! The list of containers.

use super::identity::{About, Format};
use super::interface::Container;
#[cfg(not(feature = "containers"))]
use super::left_out;
#[cfg(feature = "containers")]
use super::{flax, hdf5, npy, onnx, pth, tensorflow, tflite, whisper};
use super::{gguf, safetensors};

/// All containers, in the order they are listed to users.
#[cfg(feature = "containers")]
pub(crate) const ALL: &[About] = &[
    safetensors::ABOUT,
    gguf::ABOUT,
    npy::NPZ,
    npy::NPY,
    pth::ABOUT,
    pth::DISTRIBUTED,
    onnx::ABOUT,
    whisper::ABOUT,
    tflite::ABOUT,
    tensorflow::ABOUT,
    flax::ABOUT,
    hdf5::HDF5,
    hdf5::KERAS,
];

/// All containers; most are only recognised.
#[cfg(not(feature = "containers"))]
pub(crate) const ALL: &[About] = &[
    safetensors::ABOUT,
    gguf::ABOUT,
    left_out::NPZ,
    left_out::NPY,
    left_out::PTH,
    left_out::DISTRIBUTED,
    left_out::ONNX,
    left_out::WHISPER,
    left_out::TFLITE,
    left_out::TENSORFLOW,
    left_out::FLAX,
    left_out::HDF5,
    left_out::KERAS,
];

/// The container of a format.
pub(crate) fn of(format: Format) -> &'static dyn Container {
    format.about().container
}

impl Format {
    /// All formats.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        ALL.iter().map(|about| about.format)
    }

    /// File extensions without dots, the usual one first.
    #[must_use]
    pub const fn extensions(self) -> &'static [&'static str] {
        self.about().extensions
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether the files of a split model are slices of one file, so that they are merged into one.
    #[must_use]
    pub const fn parts_are_one_file(self) -> bool {
        self.about().parts_are_one_file
    }

    pub(crate) const fn about(self) -> &'static About {
        let mut index = 0;
        while index + 1 < ALL.len() && ALL[index].format as usize != self as usize {
            index += 1;
        }
        &ALL[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "containers")]
    #[test]
    fn formats_are_described_alike_where_they_are_read_and_left_out() {
        let (left_out, read) = (super::super::left_out::ALL, &ALL[2..]);
        assert_eq!(read.len(), left_out.len());
        for (ours, theirs) in left_out.iter().zip(read) {
            assert_eq!((ours.format, ours.name, ours.file), (theirs.format, theirs.name, theirs.file));
            assert_eq!((ours.extensions, ours.shared_extensions), (theirs.extensions, theirs.shared_extensions));
        }
    }

    #[test]
    fn every_container_is_found_by_its_format() {
        for (index, about) in ALL.iter().enumerate() {
            assert_eq!(about.format.about().format, about.format);
            assert!(ALL[..index].iter().all(|other| other.format != about.format), "{}", about.name);
            assert!(!about.extensions.is_empty(), "{}", about.name);
            assert!(about.shared_extensions.iter().all(|shared| about.extensions.contains(shared)), "{}", about.name);
        }
    }
}
