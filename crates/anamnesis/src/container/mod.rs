//! File formats: what a container holds, and how one is laid out. Containers know nothing of quantisation schemes, nor of each
//! other.
//!
//! A container says beside its reader what its files are called and how they begin. A new one is a folder here, a variant of
//! [`Format`] and a line in [`ALL`]. [`open`] takes a file of any of them, [`sniff`] knows what else a file may be.

mod detect;
mod explain;
pub(crate) mod gguf;
mod identity;
mod interface;
mod layout;
pub(crate) mod npy;
mod numpy;
mod options;
pub(crate) mod pth;
mod registry;
pub(crate) mod safetensors;
mod sniff;
mod strided;
pub(crate) mod zip;

pub(crate) use detect::open;
pub use detect::{detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub(crate) use explain::explain;
pub use identity::Format;
pub(crate) use interface::{Container, Opened};
pub(crate) use layout::{Layout, OutputTensor, Seal};
pub use options::{Configuration, OpenOptions};
pub(crate) use registry::{ALL, of};
pub(crate) use sniff::sniff;
