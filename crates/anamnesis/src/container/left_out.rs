//! The formats that are left out without the feature `containers`: recognised, and refused by name.

use super::identity::{About, Format};
use super::interface::{Container, Evidence, Opened};
use super::layout::{Layout, OutputTensor};
use super::options::OpenOptions;
use crate::catalog::Metadata;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::Budget;

/// A format that this build does not read.
struct LeftOut {
    name: &'static str,
    /// Bytes at an offset.
    magics: &'static [(usize, &'static [u8])],
}

impl LeftOut {
    fn refused(&self) -> AnamnesisError {
        AnamnesisError::unsupported(self.name, "this build leaves it out; the feature `containers` reads it")
    }
}

impl Container for LeftOut {
    fn recognises(&self, head: &[u8]) -> Evidence {
        let begins = |(at, magic): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(magic));
        if self.magics.iter().any(begins) { Evidence::Probable } else { Evidence::No }
    }

    fn open(&self, _: Box<dyn Source>, _: u32, _: &OpenOptions, _: &mut Budget) -> Result<Opened> {
        Err(self.refused())
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(self.refused())
    }
}

/// `left_out!(NAME, Format, "name", "a file of it", [extensions], [shared extensions], [magics])`.
macro_rules! left_out {
    ($($about:ident $format:ident $name:literal $file:literal $extensions:tt $shared:tt $magics:tt,)+) => {
        $(pub(super) const $about: About = About {
            format: Format::$format,
            name: $name,
            file: $file,
            extensions: &$extensions,
            shared_extensions: &$shared,
            writes: false,
            parts_are_one_file: false,
            container: &LeftOut { name: $name, magics: &$magics },
        };)+

        #[cfg(test)]
        pub(super) const ALL: &[About] = &[$($about),+];
    };
}

left_out! {
    NPZ Npz "NPZ" "an NPZ archive" ["npz"] [] [],
    NPY Npy "NPY" "a NumPy array" ["npy"] [] [(0, b"\x93NUMPY")],
    PTH Pth "pth" "a PyTorch file" ["pth", "pt", "bin"] ["bin"] [
        (0, b"PK\x03\x04"), (0, b"\x80\x02\x8a\x0a"), (0, b"\x80\x03\x8a\x0a"), (0, b"\x80\x04\x8a\x0a"), (0, b"\x80\x05\x8a\x0a")
    ],
    DISTRIBUTED Distributed "dcp" "a PyTorch distributed checkpoint" ["distcp"] [] [],
    ONNX Onnx "onnx" "an ONNX model" ["onnx"] [] [],
    WHISPER Whisper "whisper.cpp" "a model of whisper.cpp" ["bin"] ["bin"] [(0, b"lmgg")],
    TFLITE TfLite "TensorFlow Lite" "a TensorFlow Lite model" ["tflite"] [] [(4, b"TFL3")],
    TENSORFLOW TensorFlow "TensorFlow checkpoint" "the index of a TensorFlow checkpoint" ["index"] [] [],
    FLAX Flax "Flax" "a file of Flax parameters" ["msgpack"] [] [],
    HDF5 Hdf5 "HDF5" "an HDF5 file" ["h5", "hdf5"] [] [(0, b"\x89HDF\r\n\x1a\n")],
    KERAS Keras "Keras" "a Keras archive" ["keras"] [] [],
}

#[cfg(all(test, feature = "containers"))]
mod tests {
    use super::*;
    use crate::io::BytesSource;
    use crate::limits::ParseLimits;

    #[test]
    fn they_are_refused_by_name_with_the_feature_that_reads_them() {
        let limits = ParseLimits::default();
        for about in ALL {
            let (options, source) = (OpenOptions::new(), Box::new(BytesSource(Vec::new())));
            let opened = about.container.open(source, 0, &options, &mut Budget::new(&limits));
            let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(about.name) && error.contains("`containers`"), "{}: {error}", about.name);
            assert!(about.container.lay_out(&[], None).is_err() && !about.writes, "{}", about.name);
        }
        assert_eq!(HDF5.container.recognises(b"\x89HDF\r\n\x1a\n and more"), Evidence::Probable);
        assert_eq!(TFLITE.container.recognises(b"\x1c\0\0\0TFL3"), Evidence::Probable);
        assert_eq!(TFLITE.container.recognises(b"TFL3"), Evidence::No);
    }
}
