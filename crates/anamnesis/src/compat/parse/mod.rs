//! Parsing single files of each format.

mod dtypes;
mod explain;
pub mod gguf;
pub mod gguf_write;
pub(crate) mod names;
pub mod npz;
pub mod pth;
pub(crate) mod pth_types;
pub mod safetensors;

pub use crate::catalog::Dtype;
pub use crate::container::{Format, detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub use crate::scheme::{QuantScheme, TensorRole};
pub use names::*;

/// Models of a local Ollama store, by name.
pub mod ollama {
    pub use crate::checkpoint::resolve_ollama_model;
}
