//! Conversion of any input to any output: one dispatch, one plan, one pipeline.
//!
//! | target | writes |
//! |---|---|
//! | `safetensors`, `npz` | plain floats: every quantised weight is decoded |
//! | `gguf` | plain floats, but blocks of ggml, MXFP4 and NVFP4 keep their codes |
//! | `hf` | a GGUF file of a known architecture as a directory for transformers |
//! | bitsandbytes, FP8, compressed-tensors, ModelOpt, MLX, GPTQ, AWQ, quanto, HQQ, gpt-oss | quantised weights in safetensors, and a configuration that describes them |
//! | mixes and block types of ggml | quantised weights in GGUF |
//!
//! [`ConvertTarget::all`] lists them by name. The operation on a tensor depends on its type:
//!
//! | input | where nothing is quantised | where the target quantises |
//! |---|---|---|
//! | plain floats | copied, or cast on request | matrices quantised, except those that the target's own library keeps |
//! | quantised weights | decoded; blocks are kept if the container holds them | codes kept if both libraries decode them alike, otherwise decoded and quantised again |
//! | anything else | copied | copied |
//!
//! Metadata is kept if input and output have the same container. Tensors that the output cannot hold are refused
//! before anything is written. Names and shapes are kept unless a [`Selection`](crate::Selection) renames tensors, or
//! a known architecture is converted between Hugging Face and GGUF: then names, shapes, the order of rows, types and
//! metadata are those of the other side (`mapped`). GGUF has no scalars: a tensor of rank 0 gets the shape `[1]`,
//! reported as a [`PlanNote`].
//!
//! One planner (`outputs`) plans every output tensor, whether it is a tensor of the input or made from several by an
//! architecture, and decides by type and target. The quantiser then decides about all of them at once (`drafts`), and
//! its decisions become planned work with its statistics (`finished`).

#[cfg(test)]
mod broken_coders;
mod compare;
mod components;
mod directory;
mod draft;
mod drafts;
mod finished;
mod fit;
mod gguf_metadata;
mod importance;
mod inputs;
mod mapped;
mod notes;
mod options;
mod outline;
mod output_metadata;
mod output_names;
mod output_path;
mod output_tensor;
mod outputs;
mod parts;
mod plan;
mod plan_input;
mod quantise;
mod remember;
mod repacked;
mod resumable;
mod rules;
mod shared_scales;
mod split;
mod stats;
mod target;
mod types;
mod write;

use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::Progress;
pub use crate::scheme::Keeping;

pub use crate::container::{Format, detect_format, detect_format_from_bytes, detect_format_from_bytes_with_limits};
pub use compare::{Comparison, MeasuredWeight, Measurement};
pub use directory::{DirectoryOptions, DirectoryPlan, DirectoryReport, OutputState, Part, Sidecar, SidecarFate};
pub(crate) use finished::Outputs;
pub use fit::{Fit, FittedWeight};
pub use gguf_metadata::{parse_gguf_kv_arg, parse_gguf_metadata_json, read_gguf_metadata_json};
pub(crate) use inputs::ClaimedCatalog;
pub(crate) use mapped::GgufValues;
pub use mapped::HuggingFaceModel;
pub use notes::PlanNote;
pub use options::{Cast, ConvertOptions};
pub use output_path::{derive_output_path, derive_output_path_for_dtype, output_name};
pub(crate) use outputs::{OutputRequest, plan_outputs};
pub use plan::{ConvertPlan, PlannedOutput};
pub use remember::RememberPlan;
pub(crate) use resumable::manifest::unfinished_outputs;
pub use split::Split;
pub use stats::{ConvertReport, ConvertStats, QuantizationError};
pub use target::{ConvertTarget, EncodingId};
pub(crate) use write::{to_bytes, write_file};

/// Converts a file or a checkpoint directory. The output is a file, or, if the input is a directory and the target is
/// in the safetensors family, a directory that loads without further edits.
///
/// ```no_run
/// use anamnesis::convert::{ConvertOptions, ConvertTarget, convert};
/// let (input, output) = ("model-fp8.safetensors".as_ref(), "model.gguf".as_ref());
/// let stats = convert(input, ConvertTarget::Gguf, output, &ConvertOptions::new())?;
/// println!("{} decoded", stats.dequantized);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Io` if a file cannot be read or written, `Parse` if the input is malformed, `Unsupported` if it cannot be converted
/// to this target. No output is left behind then.
pub fn convert(input: &Path, target: ConvertTarget, output: &Path, options: &ConvertOptions) -> Result<ConvertStats> {
    convert_with_progress(input, target, output, options, || {})
}

/// [`convert`], calling `progress` once per finished tensor.
///
/// # Errors
/// As [`convert`].
pub fn convert_with_progress(
    input: &Path,
    target: ConvertTarget,
    output: &Path,
    options: &ConvertOptions,
    progress: impl FnMut(),
) -> Result<ConvertStats> {
    let checkpoint = Checkpoint::open(input, &options.limits)?;
    // The parts of a split GGUF model count as one file.
    let is_directory = checkpoint.directory().is_some() && checkpoint.format() != Format::Gguf;
    if target == ConvertTarget::Hf || is_directory && target.format() == Format::Safetensors {
        let plan = checkpoint.plan_convert_directory(target, options, &DirectoryOptions::new())?;
        plan.write(output, &options.run, each_tensor(progress))?;
        return Ok(plan.stats());
    }
    let plan = checkpoint.plan_convert(target, options)?;
    Ok(plan.write(output, each_tensor(progress))?.stats)
}

/// Converts a file in memory.
///
/// # Errors
/// As [`convert`], and `LimitExceeded` if input or output exceed the limits.
pub fn convert_bytes(input: &[u8], target: ConvertTarget, options: &ConvertOptions) -> Result<(Vec<u8>, ConvertStats)> {
    convert_bytes_with_progress(input, target, options, || {})
}

/// [`convert_bytes`], calling `progress` once per finished tensor.
///
/// # Errors
/// As [`convert_bytes`].
pub fn convert_bytes_with_progress(
    input: &[u8],
    target: ConvertTarget,
    options: &ConvertOptions,
    progress: impl FnMut(),
) -> Result<(Vec<u8>, ConvertStats)> {
    let checkpoint = Checkpoint::from_bytes(input.to_vec(), &options.limits)?;
    let (bytes, report) = checkpoint.plan_convert(target, options)?.to_bytes(each_tensor(progress))?;
    Ok((bytes, report.stats))
}

/// A progress callback that calls `progress` once per finished tensor.
fn each_tensor(mut progress: impl FnMut()) -> impl FnMut(&Progress) {
    let mut reported = 0;
    move |now| {
        while reported < now.tensors {
            reported += 1;
            progress();
        }
    }
}
