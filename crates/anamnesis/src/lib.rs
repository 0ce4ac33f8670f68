//! Parse any tensor file, recover any precision.
//!
//! anamnesis reads quantised model files and decodes them bit for bit like the library that wrote them: to BF16, F16 or
//! F32, in constant memory, at memory speed. No input makes any of this panic, run code, or use more memory than
//! [`ParseLimits`] allow.
//!
//! Everything begins with a [`Checkpoint`]: one file, a directory of shards, a model in a local store, bytes, a reader,
//! any implementation of [`PositionedRead`], or the files of a [`Store`] under the path of its [`Mount`].
//!
//! | to | call |
//! |---|---|
//! | open | [`Checkpoint::open`], [`open_with`](Checkpoint::open_with), [`from_bytes`](Checkpoint::from_bytes), [`from_reader`](Checkpoint::from_reader), [`from_positioned`](Checkpoint::from_positioned) (tensors in memory: [`MemoryTensors`]) |
//! | list | [`Checkpoint::tensors`], [`weights`](Checkpoint::weights), [`inspect`](Checkpoint::inspect), [`metadata`](Checkpoint::metadata) |
//! | decode one | [`Checkpoint::decode`], [`decode_into`](Checkpoint::decode_into), [`decode_tiles`](Checkpoint::decode_tiles) |
//! | decode all | [`Checkpoint::decoded`], or to a file: [`Checkpoint::plan`] |
//! | convert | [`Checkpoint::plan_convert`], [`plan_convert_directory`](Checkpoint::plan_convert_directory) |
//! | quantise | the same, to a [`ConvertTarget`] that [`is_quantized`](ConvertTarget::is_quantized) |
//! | quantise in memory | [`encode`](fn@encode) values by the name of an encoding, [`encode_tensors`] |
//! | measure | [`Checkpoint::stats`], [`diff`](Checkpoint::diff), [`hash`](Checkpoint::hash) |
//! | check | [`verify()`], [`scan()`] |
//!
//! List the tensors of a model and their quantisation:
//!
//! ```no_run
//! use anamnesis::{Checkpoint, ParseLimits};
//! let checkpoint = Checkpoint::open("Llama-3.1-8B-FP8", &ParseLimits::default())?;
//! for weight in checkpoint.weights() {
//!     println!("{} {}", weight.name, weight.scheme);
//! }
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```
//!
//! Decode one tensor, or all of them:
//!
//! ```no_run
//! # use anamnesis::{Checkpoint, ParseLimits, TargetDtype};
//! # let checkpoint = Checkpoint::open("Llama-3.1-8B-FP8", &ParseLimits::default())?;
//! let values: Vec<f32> = checkpoint.decode("model.layers.0.mlp.up_proj.weight")?;
//! for tensor in checkpoint.decoded(TargetDtype::BF16) {
//!     let tensor = tensor?;
//!     println!("{} {:?} {} bytes", tensor.name, tensor.shape, tensor.data.len());
//! }
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```
//!
//! Convert and quantise: all sizes are planned before the first byte is written.
//!
//! ```no_run
//! # use anamnesis::{Checkpoint, ParseLimits};
//! use anamnesis::{BnbOptions, ConvertOptions, ConvertTarget};
//! # let checkpoint = Checkpoint::open("Llama-3.1-8B-FP8", &ParseLimits::default())?;
//! let options = ConvertOptions::new().with_bnb(BnbOptions::new().with_double_quant(true));
//! let plan = checkpoint.plan_convert(ConvertTarget::BnbNf4, &options)?;
//! println!("{} bytes", plan.total_bytes());
//! let report = plan.write("Llama-3.1-8B-nf4.safetensors", |progress| println!("{}", progress.bytes))?;
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```
//!
//! # Names of earlier versions
//!
//! The functions and types of earlier versions are available unchanged; they are re-exported here and documented
//! in their modules.
//!
//! | names | module |
//! |---|---|
//! | `parse`, `ParsedModel` and related names for one safetensors file | [`model`] |
//! | `parse_gguf…`, `parse_npz…`, `parse_pth…`, `parse_safetensors_header…`, `write_gguf…` | [`parse`](mod@parse) |
//! | `dequantize_…`: single weights from slices; `npz_to_safetensors`, `pth_to_safetensors` | [`remember`] |
//! | `encode_bnb…`, `write_bnb_nf4…`: single weights encoded from slices | [`lethe`] |
//! | `convert…`, `detect_format…` | [`convert`](mod@convert) |

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-rust.md")]
struct GuideFromRust;

mod architecture;
mod byte_level;
mod catalog;
mod checkpoint;
mod compat;
mod container;
mod cpu;
mod io;
mod json;
mod pipeline;
mod quant_config;
mod scheme;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

pub mod cancel;
pub mod convert;
mod decode;
mod encode;
pub mod error;
pub mod formats;
pub mod inspect;
pub mod limits;
mod measure;
mod scan;
pub mod verify;

// The main interface.
pub use architecture::Architecture;
pub use cancel::CancelToken;
pub use catalog::{BlockType, Dtype, Fact, Facts, Note, Rounding, Selection, Subject, TargetDtype};
pub use checkpoint::{
    Checkpoint, Component, Components, HubSpec, MemoryTensor, MemoryTensors, Origin, hub_cache, is_found,
};
pub use container::{Configuration, Format, OpenOptions};
pub use convert::{
    Cast, Comparison, ConvertOptions, ConvertPlan, ConvertReport, ConvertStats, ConvertTarget, DirectoryOptions,
    DirectoryPlan, DirectoryReport, EncodingId, Fit, FittedWeight, Keeping, MeasuredWeight, Measurement, OutputState,
    Part, PlanNote, PlannedOutput, QuantizationError, RememberPlan, Sidecar, SidecarFate, Split,
};
pub use cpu::CpuLevel;
#[cfg(feature = "ndarray")]
pub use decode::StoredElement;
pub use decode::{DecodedElement, DecodedTensor};
pub use encode::{Encoded, encode, encode_tensors};
pub use error::{AnamnesisError, Fault, FileKind, ModelPart, Remedy, Request, Result};
pub use formats::{
    FormatSupport, SchemeSupport, block_types, decoded_schemes, decoded_types, formats, refused_schemes,
};
pub use inspect::{
    AttentionKind, Cache, CacheLayers, ContentTensor, Contents, FoldedTensors, InspectInfo, InspectOptions,
    InspectSummary, ModelFacts, Overview, OverviewWarning, Parameters, SchemeSummary, StorageKind, TensorSummary,
    UnknownCache, WeightSummary, format_bytes,
};
pub use io::output::{Existing, free_bytes};
pub use io::{Mount, PositionedRead, Store, StoreEntry};
pub use limits::ParseLimits;
pub use measure::{
    BadScales, DiffOptions, DiffOutcome, FiniteStats, HashDifference, HashForm, Histogram, ModelDiff, ModelHash,
    ModelStats, Sha256Digest, TensorDiff, TensorHash, TensorStats, ValueDiff,
};
pub use pipeline::{Cores, OnTensor, Progress, RememberOptions};
pub use quant_config::GptqFormat;
pub use scan::{
    Grade, ScanReport, ScanVerdict, ScannedFile, ScannedGlobal, ScannedPickle, scan, scan_all, scan_all_with_limits,
    scan_bytes, scan_positioned,
};
pub use scheme::{
    BlockOptions, BnbOptions, Coding, Evidence, GroupOptions, GroupSize, Importance, InputWeights, Leftover,
    QuantScheme, QuantiseOptions, TensorRole,
};
pub use verify::{VerifyReport, verify, verify_positioned, verify_with_limits};

// The interface of earlier versions.
pub use compat::{lethe, model, parse, remember};
#[doc(no_inline)]
pub use convert::{
    convert, convert_bytes, convert_bytes_with_progress, convert_with_progress, detect_format,
    detect_format_from_bytes, detect_format_from_bytes_with_limits,
};
#[doc(no_inline)]
pub use lethe::{
    BnbNf4WriteStats, BnbWriteInput, FP4_CODEBOOK, NF4_BLOCK_SIZE, NF4_CODEBOOK,
    assert_bnb_int8_decode_encode_round_trip, assert_bnb4_decode_encode_round_trip, classify_inputs, encode_bnb_int8,
    encode_bnb_int8_compute_scb, encode_bnb4, encode_bnb4_compute_absmax, encode_bnb4_double_quant,
    is_eligible_for_nf4, write_bnb_nf4_safetensors, write_bnb_nf4_safetensors_bytes,
};
#[doc(no_inline)]
pub use model::{
    ParsedModel, parse, parse_bytes, parse_bytes_with_limits, parse_from_reader, parse_from_reader_with_limits,
    parse_with_limits, parse_with_options,
};
#[doc(no_inline)]
pub use parse::gguf::{
    GgufFrontMatter, GgufInspectInfo, GgufMetadataArray, GgufMetadataValue, GgufTensor, GgufTensorInfo, GgufType,
    ParsedGguf, inspect_gguf_from_reader, inspect_gguf_from_reader_with_options, parse_gguf, parse_gguf_bytes,
    parse_gguf_bytes_with_limits, parse_gguf_from_reader, parse_gguf_from_reader_with_limits,
    parse_gguf_front_matter_from_reader, parse_gguf_front_matter_from_reader_with_limits, parse_gguf_with_limits,
};
#[doc(no_inline)]
pub use parse::gguf_write::{GgufWriteTensor, write_gguf, write_gguf_to_writer};
#[doc(no_inline)]
pub use parse::npz::{
    NpzDtype, NpzInspectInfo, NpzTensor, NpzTensorInfo, inspect_npz, inspect_npz_from_reader,
    inspect_npz_from_reader_with_options, inspect_npz_with_options, parse_npz, parse_npz_bytes,
    parse_npz_bytes_with_limits, parse_npz_from_reader, parse_npz_from_reader_with_limits, parse_npz_with_limits,
};
#[doc(no_inline)]
pub use parse::ollama::resolve_ollama_model;
#[doc(no_inline)]
pub use parse::pth::{
    ParsedPth, PthDtype, PthFrontMatter, PthInspectInfo, PthTensor, PthTensorInfo, inspect_pth_from_reader,
    inspect_pth_from_reader_with_options, parse_pth, parse_pth_bytes, parse_pth_bytes_with_limits,
    parse_pth_from_reader, parse_pth_from_reader_with_limits, parse_pth_front_matter_from_reader,
    parse_pth_front_matter_from_reader_with_limits, parse_pth_with_limits,
};
#[doc(no_inline)]
pub use parse::safetensors::{
    AwqCompanions, AwqConfig, Bnb4Companions, BnbConfig, GptqCompanions, GptqConfig, SafetensorsHeader, TensorEntry,
    parse_safetensors_header, parse_safetensors_header_from_reader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};
#[doc(no_inline)]
pub use remember::{
    Bf16Out, F16Out, F32Out, OutputElement, dequantize_awq, dequantize_awq_to_bf16, dequantize_bnb_int8,
    dequantize_bnb_int8_to_bf16, dequantize_bnb4, dequantize_bnb4_double_quant, dequantize_bnb4_double_quant_to_bf16,
    dequantize_bnb4_to_bf16, dequantize_fp8, dequantize_fp8_to_bf16, dequantize_gguf, dequantize_gguf_blocks,
    dequantize_gguf_blocks_to_bf16, dequantize_gguf_to_bf16, dequantize_gptq, dequantize_gptq_to_bf16,
    dequantize_nvfp4, dequantize_nvfp4_to_bf16, dequantize_per_channel_fp8, dequantize_per_channel_fp8_to_bf16,
    dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16, npz_to_safetensors, npz_to_safetensors_bytes,
    pth_to_safetensors, pth_to_safetensors_bytes,
};
