//! Containers: file formats, how they are read and laid out. A container knows neither quantisation schemes nor other
//! containers.
//!
//! Each container describes its extensions and magic in an `About`. A new one is a folder here, a variant of
//! [`Format`] and a line in [`ALL`]. [`open`] reads a file of any of them, [`sniff`] identifies other kinds of files.

mod checked;
mod cursor;
mod detect;
mod explain;
mod flax;
mod ggml_types;
pub(crate) mod gguf;
mod hdf5;
mod identity;
mod interface;
mod layout;
pub(crate) mod npy;
mod numpy;
pub(crate) mod onnx;
mod options;
mod pages;
pub(crate) mod pieces;
pub(crate) mod protobuf;
pub(crate) mod pth;
mod registry;
pub(crate) mod safetensors;
mod sniff;
mod strided;
mod tensorflow;
mod tflite;
mod unread;
mod whisper;
pub(crate) mod zip;

pub(crate) use detect::open;
pub use detect::{detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub(crate) use explain::explain;
pub use identity::Format;
pub(crate) use interface::{Container, Opened};
pub(crate) use layout::{ByteOrder, DeferredHeaders, Layout, OutputTensor};
pub use options::{Configuration, OpenOptions};
pub(crate) use registry::{ALL, of};
pub(crate) use sniff::sniff;
pub(crate) use unread::unread_directory;
