//! Containers: file formats, how they are read and laid out. A container knows neither quantisation schemes nor other
//! containers.
//!
//! Each container describes its extensions and magic in an `About`. A new one is a folder here, a variant of
//! [`Format`] and a line in [`ALL`]. [`open`] reads a file of any of them, [`sniff`] identifies other kinds of files.

#[cfg(feature = "containers")]
mod checked;
mod cursor;
mod detect;
mod explain;
#[cfg(feature = "containers")]
mod flax;
mod ggml_types;
pub(crate) mod gguf;
#[cfg(feature = "containers")]
pub(crate) mod hdf5;
mod identity;
mod interface;
mod layout;
#[cfg(any(test, not(feature = "containers")))]
mod left_out;
#[cfg(feature = "containers")]
pub(crate) mod npy;
#[cfg(feature = "containers")]
mod numpy;
#[cfg(feature = "containers")]
pub(crate) mod onnx;
mod options;
#[cfg(feature = "containers")]
mod pages;
pub(crate) mod pieces;
pub(crate) mod protobuf;
#[cfg(feature = "containers")]
pub(crate) mod pth;
mod registry;
pub(crate) mod safetensors;
mod sniff;
#[cfg(feature = "containers")]
mod strided;
pub(crate) mod tar;
#[cfg(feature = "containers")]
mod tensorflow;
#[cfg(feature = "containers")]
mod tflite;
mod unread;
#[cfg(feature = "containers")]
mod whisper;
#[cfg(feature = "containers")]
pub(crate) mod zip;

pub(crate) use detect::{damage, open};
pub use detect::{detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub(crate) use explain::explain;
pub use identity::Format;
pub(crate) use interface::{Container, Opened};
pub(crate) use layout::{ByteOrder, DeferredHeaders, Layout, OutputTensor};
pub use options::{Configuration, OpenOptions};
pub(crate) use registry::{ALL, of};
pub(crate) use sniff::sniff;
pub(crate) use unread::unread_directory;
