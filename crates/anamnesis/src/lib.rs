//! Parse any tensor file, recover any precision.
//!
//! anamnesis reads quantised model files and gives the numbers back, bit for bit as the library that wrote them computes
//! them: as BF16, F16 or F32, in constant memory, at memory speed.
//!
//! ```no_run
//! let model = anamnesis::parse("model-fp8.safetensors")?;
//! println!("{}", model.inspect());
//! model.remember("model-bf16.safetensors", anamnesis::TargetDtype::BF16)?;
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```
//!
//! [`parse()`] and its kin open a file, [`Checkpoint`] is the general handle behind them, [`remember`] decodes single
//! weights from slices. No input makes any of this panic, run code, or use more memory than [`ParseLimits`] allow.

/// The guide's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-rust.md")]
struct GuideFromRust;

mod cancel;
mod catalog;
mod checkpoint;
mod container;
mod cpu;
mod io;
mod pipeline;
mod scheme;

pub mod convert;
pub mod error;
pub mod formats;
pub mod inspect;
pub mod lethe;
pub mod limits;
pub mod model;
pub mod parse;
pub mod remember;
mod scan;
pub mod verify;

pub use cancel::CancelToken;
pub use catalog::{BlockType, Dtype, Facts, Selection};
pub use checkpoint::{Checkpoint, Format, detect_format, detect_format_from_bytes};
pub use container::OpenOptions;
pub use convert::{
    Cast, ConvertOptions, ConvertPlan, ConvertReport, ConvertStats, ConvertTarget, Keeping, QuantizationError,
};
pub use cpu::CpuLevel;
pub use error::{AnamnesisError, Fault, Request, Result};
pub use formats::{
    FormatSupport, SchemeSupport, block_types, decoded_schemes, decoded_types, formats, refused_schemes,
};
pub use inspect::{InspectInfo, InspectOptions, InspectSummary, TensorSummary, WeightSummary, format_bytes};
pub use io::output::Existing;
pub use lethe::{
    BnbNf4WriteStats, BnbWriteInput, FP4_CODEBOOK, NF4_BLOCK_SIZE, NF4_CODEBOOK,
    assert_bnb_int8_decode_encode_round_trip, assert_bnb4_decode_encode_round_trip, classify_inputs, encode_bnb_int8,
    encode_bnb_int8_compute_scb, encode_bnb4, encode_bnb4_compute_absmax, encode_bnb4_double_quant,
    is_eligible_for_nf4, write_bnb_nf4_safetensors, write_bnb_nf4_safetensors_bytes,
};
pub use limits::ParseLimits;
pub use model::{
    ParsedModel, TargetDtype, parse, parse_bytes, parse_bytes_with_limits, parse_from_reader,
    parse_from_reader_with_limits, parse_with_limits,
};
pub use parse::gguf::{
    GgufFrontMatter, GgufInspectInfo, GgufMetadataArray, GgufMetadataValue, GgufTensor, GgufTensorInfo, GgufType,
    ParsedGguf, inspect_gguf_from_reader, inspect_gguf_from_reader_with_options, parse_gguf, parse_gguf_bytes,
    parse_gguf_bytes_with_limits, parse_gguf_from_reader, parse_gguf_from_reader_with_limits,
    parse_gguf_front_matter_from_reader, parse_gguf_front_matter_from_reader_with_limits, parse_gguf_with_limits,
};
pub use parse::gguf_write::{GgufWriteTensor, write_gguf, write_gguf_to_writer};
pub use parse::npz::{
    NpzDtype, NpzInspectInfo, NpzTensor, NpzTensorInfo, inspect_npz, inspect_npz_from_reader,
    inspect_npz_from_reader_with_options, inspect_npz_with_options, parse_npz, parse_npz_bytes,
    parse_npz_bytes_with_limits, parse_npz_from_reader, parse_npz_from_reader_with_limits, parse_npz_with_limits,
};
pub use parse::ollama::resolve_ollama_model;
pub use parse::pth::{
    ParsedPth, PthDtype, PthFrontMatter, PthInspectInfo, PthTensor, PthTensorInfo, inspect_pth_from_reader,
    inspect_pth_from_reader_with_options, parse_pth, parse_pth_bytes, parse_pth_bytes_with_limits,
    parse_pth_from_reader, parse_pth_from_reader_with_limits, parse_pth_front_matter_from_reader,
    parse_pth_front_matter_from_reader_with_limits, parse_pth_with_limits,
};
pub use parse::safetensors::{
    AwqCompanions, AwqConfig, Bnb4Companions, BnbConfig, GptqCompanions, GptqConfig, QuantScheme, SafetensorsHeader,
    TensorEntry, TensorRole, parse_safetensors_header, parse_safetensors_header_from_reader,
    parse_safetensors_header_from_reader_with_limits, parse_safetensors_header_with_limits,
};
pub use pipeline::Progress;
pub use remember::{
    Bf16Out, DirectoryOptions, DirectoryPlan, DirectoryReport, F16Out, F32Out, OutputElement, Part, PlannedOutput,
    RememberOptions, RememberPlan, Sidecar, SidecarFate, dequantize_awq, dequantize_awq_to_bf16, dequantize_bnb_int8,
    dequantize_bnb_int8_to_bf16, dequantize_bnb4, dequantize_bnb4_double_quant, dequantize_bnb4_double_quant_to_bf16,
    dequantize_bnb4_to_bf16, dequantize_fp8, dequantize_fp8_to_bf16, dequantize_gguf, dequantize_gguf_blocks,
    dequantize_gguf_blocks_to_bf16, dequantize_gguf_to_bf16, dequantize_gptq, dequantize_gptq_to_bf16,
    dequantize_nvfp4, dequantize_nvfp4_to_bf16, dequantize_per_channel_fp8, dequantize_per_channel_fp8_to_bf16,
    dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16, npz_to_safetensors, npz_to_safetensors_bytes,
    pth_to_safetensors, pth_to_safetensors_bytes,
};
pub use scan::{ScanReport, ScanVerdict, ScannedGlobal, ScannedPickle, scan, scan_bytes};
pub use verify::{VerifyReport, verify};
