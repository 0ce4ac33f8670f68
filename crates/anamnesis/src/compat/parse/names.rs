//! The names of the modules here, as [`parse`](super) and the root of the crate have them.

pub use super::gguf::{
    GgufFrontMatter, GgufInspectInfo, GgufMetadataArray, GgufMetadataValue, GgufTensor, GgufTensorInfo, GgufType,
    ParsedGguf, inspect_gguf_from_reader, inspect_gguf_from_reader_with_options, parse_gguf, parse_gguf_bytes,
    parse_gguf_bytes_with_limits, parse_gguf_from_reader, parse_gguf_from_reader_with_limits,
    parse_gguf_front_matter_from_reader, parse_gguf_front_matter_from_reader_with_limits, parse_gguf_with_limits,
};
pub use super::gguf_write::{GgufWriteTensor, write_gguf, write_gguf_to_writer};
pub use super::npz::{
    NpzDtype, NpzInspectInfo, NpzTensor, NpzTensorInfo, inspect_npz, inspect_npz_from_reader,
    inspect_npz_from_reader_with_options, inspect_npz_with_options, parse_npz, parse_npz_bytes,
    parse_npz_bytes_with_limits, parse_npz_from_reader, parse_npz_from_reader_with_limits, parse_npz_with_limits,
};
pub use super::ollama::resolve_ollama_model;
pub use super::pth::{
    ParsedPth, PthDtype, PthFrontMatter, PthInspectInfo, PthTensor, PthTensorInfo, inspect_pth_from_reader,
    inspect_pth_from_reader_with_options, parse_pth, parse_pth_bytes, parse_pth_bytes_with_limits,
    parse_pth_from_reader, parse_pth_from_reader_with_limits, parse_pth_front_matter_from_reader,
    parse_pth_front_matter_from_reader_with_limits, parse_pth_with_limits,
};
pub use super::safetensors::{
    AwqCompanions, AwqConfig, Bnb4Companions, BnbConfig, GptqCompanions, GptqConfig, SafetensorsHeader, TensorEntry,
    parse_safetensors_header, parse_safetensors_header_from_reader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};
