//! Parsing single files of each format.

mod dtypes;
mod explain;
pub mod gguf;
pub mod gguf_write;
pub mod npz;
pub mod pth;
pub(crate) mod pth_types;
pub mod safetensors;

pub use crate::catalog::Dtype;
pub use crate::container::{Format, detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub use crate::scheme::{QuantScheme, TensorRole};
pub use gguf::{
    GgufFrontMatter, GgufInspectInfo, GgufMetadataArray, GgufMetadataValue, GgufTensor, GgufTensorInfo, GgufType,
    ParsedGguf, inspect_gguf_from_reader, inspect_gguf_from_reader_with_options, parse_gguf, parse_gguf_bytes,
    parse_gguf_bytes_with_limits, parse_gguf_from_reader, parse_gguf_from_reader_with_limits,
    parse_gguf_front_matter_from_reader, parse_gguf_front_matter_from_reader_with_limits, parse_gguf_with_limits,
};
pub use gguf_write::{GgufWriteTensor, write_gguf, write_gguf_to_writer};
pub use npz::{
    NpzDtype, NpzInspectInfo, NpzTensor, NpzTensorInfo, inspect_npz, inspect_npz_from_reader,
    inspect_npz_from_reader_with_options, inspect_npz_with_options, parse_npz, parse_npz_bytes,
    parse_npz_bytes_with_limits, parse_npz_from_reader, parse_npz_from_reader_with_limits, parse_npz_with_limits,
};
pub use ollama::resolve_ollama_model;
pub use pth::{
    ParsedPth, PthDtype, PthFrontMatter, PthInspectInfo, PthTensor, PthTensorInfo, inspect_pth_from_reader,
    inspect_pth_from_reader_with_options, parse_pth, parse_pth_bytes, parse_pth_bytes_with_limits,
    parse_pth_from_reader, parse_pth_from_reader_with_limits, parse_pth_front_matter_from_reader,
    parse_pth_front_matter_from_reader_with_limits, parse_pth_with_limits,
};
pub use safetensors::{
    AwqCompanions, AwqConfig, Bnb4Companions, BnbConfig, GptqCompanions, GptqConfig, SafetensorsHeader, TensorEntry,
    parse_safetensors_header, parse_safetensors_header_from_reader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};

/// Models of a local Ollama store, by name.
pub mod ollama {
    pub use crate::checkpoint::resolve_ollama_model;
}
