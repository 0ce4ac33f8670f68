//! Headers of tensor files under their known names.

pub mod safetensors;

pub use crate::catalog::Dtype;
pub use crate::checkpoint::{Format, detect_format, detect_format_from_bytes};
pub use crate::scheme::{QuantScheme, TensorRole};
pub use safetensors::{
    AwqCompanions, AwqConfig, Bnb4Companions, BnbConfig, GptqCompanions, GptqConfig, SafetensorsHeader, TensorEntry,
    parse_safetensors_header, parse_safetensors_header_from_reader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};
