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
//! | decode one | [`Checkpoint::decode`], [`decode_rows`](Checkpoint::decode_rows), [`decode_into`](Checkpoint::decode_into), [`decode_tiles`](Checkpoint::decode_tiles) |
//! | decode all | [`Checkpoint::decoded`], or to a file: [`Checkpoint::plan`]; a GGUF model under the names of Hugging Face: [`Checkpoint::as_hugging_face`] |
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
//! A checkpoint is shared between threads, and every function of it may be called by many at once. The crates
//! `anamnesis-candle` and `anamnesis-burn` load checkpoints into these frameworks; `anamnesis-remote` reads them from web
//! servers and the Hugging Face Hub.
//!
//! # Features
//!
//! All are on by default but the last two. Without any, the library reads safetensors and GGUF files and decodes every
//! scheme, with 14 crates.
//!
//! | feature | brings |
//! |---|---|
//! | `containers` | the other file formats: PyTorch, NumPy, ONNX, TensorFlow, TensorFlow Lite, Flax, Keras, whisper.cpp; with `convert`, [`scan()`] |
//! | `convert` | output: conversion of files and directories, [`inspect`](mod@inspect), [`verify()`], statistics, differences, hashes |
//! | `encode` | every [`ConvertTarget`] that quantises, [`encode`](fn@encode) |
//! | `architectures` | models between Hugging Face and GGUF: tensor names, metadata, tokenizers, towers, adapters |
//! | `compat` | the names of earlier versions, below |
//! | `half` | values as `half::bf16` and `half::f16` |
//! | `ndarray` | tensors as arrays of `ndarray` |
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

#![cfg_attr(
    not(feature = "compat"),
    allow(dead_code, unused_imports, reason = "the rooms of absent features use these")
)]

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-rust.md")]
struct GuideFromRust;

#[cfg(feature = "convert")]
mod architecture;
mod byte_level;
mod catalog;
mod checkpoint;
#[cfg(feature = "compat")]
mod compat;
mod container;
mod cpu;
mod io;
mod json;
mod pipeline;
mod quant_config;
mod scheme;

#[cfg(all(feature = "architectures", any(test, fuzzing)))]
pub mod fuzzing;

pub mod cancel;
#[cfg(feature = "convert")]
pub mod convert;
mod decode;
#[cfg(feature = "encode")]
mod encode;
pub mod error;
#[cfg(feature = "convert")]
pub mod formats;
#[cfg(feature = "convert")]
pub mod inspect;
pub mod limits;
#[cfg(feature = "convert")]
mod measure;
#[cfg(all(feature = "containers", feature = "convert"))]
mod scan;
#[cfg(feature = "convert")]
pub mod verify;

// The main interface.
#[cfg(feature = "convert")]
pub use architecture::Architecture;
pub use cancel::CancelToken;
pub use catalog::{BlockType, Dtype, Fact, Facts, Note, Rounding, Selection, Subject, TargetDtype};
pub use checkpoint::{
    Checkpoint, Component, Components, HubSpec, MemoryTensor, MemoryTensors, Origin, TensorSummary, WeightSummary,
    hub_cache, is_found,
};
pub use container::{Configuration, Format, OpenOptions};
#[cfg(feature = "convert")]
pub use convert::{
    Cast, Comparison, ConvertOptions, ConvertPlan, ConvertReport, ConvertStats, ConvertTarget, DirectoryOptions,
    DirectoryPlan, DirectoryReport, EncodingId, Fit, FittedWeight, HuggingFaceModel, Keeping, MeasuredWeight,
    Measurement, OutputState, Part, PlanNote, PlannedOutput, QuantizationError, RememberPlan, Sidecar, SidecarFate,
    Split,
};
pub use cpu::CpuLevel;
#[cfg(feature = "ndarray")]
pub use decode::StoredElement;
pub use decode::{DecodedElement, DecodedTensor};
#[cfg(feature = "encode")]
pub use encode::{Encoded, encode, encode_tensors};
pub use error::{AnamnesisError, Fault, FileKind, ModelPart, Remedy, Request, Result};
#[cfg(feature = "convert")]
pub use formats::{
    FormatSupport, SchemeSupport, block_types, decoded_schemes, decoded_types, formats, refused_schemes,
};
#[cfg(feature = "convert")]
pub use inspect::{
    AttentionKind, Cache, CacheLayers, ContentTensor, Contents, FoldedTensors, InspectInfo, InspectOptions,
    InspectSummary, ModelFacts, Overview, OverviewWarning, Parameters, SchemeSummary, StorageKind, UnknownCache,
    format_bytes,
};
#[cfg(feature = "convert")]
pub use io::output::free_bytes;
#[cfg(feature = "convert")]
pub use io::{AtomicFile, file_sha256};
pub use io::{
    Existing, FileRecord, FileState, Mount, PositionedRead, Store, StoreEntry, StoreWrite, exists, record_files,
};
pub use limits::ParseLimits;
#[cfg(feature = "convert")]
pub use measure::{
    BadScales, DiffOptions, DiffOutcome, FiniteStats, HashDifference, HashForm, Histogram, ModelDiff, ModelHash,
    ModelStats, Sha256Digest, TensorDiff, TensorHash, TensorStats, ValueDiff,
};
#[cfg(feature = "convert")]
pub use pipeline::Progress;
pub use pipeline::{Cores, OnTensor, RememberOptions};
pub use quant_config::GptqFormat;
#[cfg(all(feature = "containers", feature = "convert"))]
pub use scan::{
    Grade, ScanReport, ScanVerdict, ScannedFile, ScannedGlobal, ScannedLanguage, ScannedPickle, scan, scan_all,
    scan_all_with_limits, scan_bytes, scan_positioned,
};
pub use scheme::{
    BlockOptions, BnbOptions, Coding, Evidence, GroupOptions, GroupSize, Importance, InputWeights, Leftover,
    QuantScheme, QuantiseOptions, TensorRole,
};
#[cfg(feature = "convert")]
pub use verify::{VerifyReport, verify, verify_positioned, verify_with_limits};

// The interface of earlier versions, documented in its modules.
#[cfg(feature = "compat")]
#[doc(hidden)]
pub use compat::names::*;
#[cfg(feature = "compat")]
pub use compat::{lethe, model, parse, remember};
#[cfg(feature = "convert")]
#[doc(hidden)]
pub use convert::{
    convert, convert_bytes, convert_bytes_with_progress, convert_with_progress, detect_format,
    detect_format_from_bytes, detect_format_from_bytes_with_limits,
};
