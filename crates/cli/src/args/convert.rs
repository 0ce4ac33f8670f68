//! Arguments of `convert` and `forget`, and those that other commands share.

use std::path::PathBuf;

use anamnesis::{BlockType, DirectoryOptions, Dtype, GroupSize, Part, Selection, Split};
use clap::{Args, ValueEnum};

use super::{InputArgs, ProvenanceArgs, named};
use crate::exit::{Failure, about};
use crate::ui::size;

/// Number of worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// One per core.
    Auto,
    Count(usize),
}

impl Threads {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 1..=256) => Ok(Self::Count(count)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err("write a number from 1 to 256, or auto".to_owned()),
        }
    }

    /// The number, if given.
    pub(crate) const fn count(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Count(count) => Some(count),
        }
    }
}

/// Selection and renaming of tensors.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
}

/// Selection of tensors.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// Include only tensors that match a pattern: 'model.layers.[0-3].*' (repeatable)
    #[arg(long, alias = "filter", value_name = "GLOB", help_heading = SELECTING)]
    pub(crate) include: Vec<String>,
    /// Exclude tensors that match a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = SELECTING)]
    pub(crate) exclude: Vec<String>,
}

/// Renaming of tensors.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Rename tensors: 's/REGEX/REPLACEMENT/' or '.../g' (repeatable)
    #[arg(long, value_name = "S/.../.../", help_heading = SELECTING)]
    pub(crate) rename: Vec<String>,
    /// Add TEXT to the front of every name
    #[arg(long, value_name = "TEXT", help_heading = SELECTING)]
    pub(crate) prefix: Option<String>,
    /// Strip TEXT from the front of names
    #[arg(long, value_name = "TEXT", help_heading = SELECTING)]
    pub(crate) strip_prefix: Option<String>,
}

const SELECTING: &str = "Selecting and renaming";

impl SelectArgs {
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        self.choice.add_to(self.names.selection()?)
    }
}

impl ChoiceArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    fn add_to(&self, selection: Selection) -> Result<Selection, Failure> {
        let selection = self.include.iter().try_fold(selection, |all, glob| all.with_include(glob));
        let selection = selection.map_err(about("--include"))?;
        self.exclude.iter().try_fold(selection, |all, glob| all.with_exclude(glob)).map_err(about("--exclude"))
    }

    /// The selection.
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        self.add_to(Selection::new())
    }
}

impl NameArgs {
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        let mut selection = Selection::new();
        if let Some(prefix) = &self.prefix {
            selection = selection.with_prefix(prefix.as_str());
        }
        if let Some(prefix) = &self.strip_prefix {
            selection = selection.with_strip_prefix(prefix).map_err(about("--strip-prefix"))?;
        }
        self.rename.iter().try_fold(selection, |all, command| all.with_rename(command)).map_err(about("--rename"))
    }
}

/// Options for writing an output.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// The output path, - for standard output [default: next to PATH, named after the type]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Worker threads: a number, or auto for one per core
    #[arg(long, value_name = "N", value_parser = Threads::parse, default_value = "auto")]
    pub(crate) threads: Threads,
    /// Show the plan, tensor by tensor, and write nothing
    #[arg(long, conflicts_with = "provenance")]
    pub(crate) dry_run: bool,
    /// Directories: start a new file at 500MB, 4GiB, ... [default: 5GB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) shard_size: Option<u64>,
    /// Directories: write a single weight file
    #[arg(long, conflicts_with = "shard_size")]
    pub(crate) single_file: bool,
    /// Directories: write one share only; 3/8 is the third of eight
    // Restarting one part would remove what the others have written.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["force", "provenance"])]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(crate) provenance: ProvenanceArgs,
    /// Whether the output is inside a directory that the command creates.
    #[arg(skip)]
    pub(crate) is_inside: bool,
}

impl WriteArgs {
    pub(crate) fn directory_options(&self) -> DirectoryOptions {
        let mut options = DirectoryOptions::new();
        if let Some(bytes) = self.shard_size {
            options = options.with_shard_bytes(bytes);
        }
        if self.single_file {
            options = options.with_single_file();
        }
        match self.part {
            Some(part) => options.with_part(part),
            None => options,
        }
    }

    /// The first given option that applies to directories only.
    pub(crate) fn directory_option(&self) -> Option<&'static str> {
        let given = [
            (self.shard_size.is_some(), "--shard-size"),
            (self.single_file, "--single-file"),
            (self.part.is_some(), "--part"),
        ];
        given.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
    }
}

/// Options for quantisation.
#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// Quantise the block scales too (bnb-nf4, bnb-fp4)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) double_quant: bool,
    /// Values per scale (bnb-nf4, bnb-fp4) [default: 64]
    #[arg(long, value_name = "N", help_heading = QUANTISING)]
    pub(crate) block_size: Option<usize>,
    /// Values of a row per scale, or channel for the whole row (w4a16, mlx-4bit …)
    #[arg(long, value_name = "N", help_heading = QUANTISING)]
    pub(crate) group_size: Option<GroupSize>,
    /// Keep codes and scales that have the same meaning in the target, ignoring rounding of libraries in half
    /// precision (GPTQ, MLX, w4a16 …)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) same_codes: bool,
    /// Importance matrix, as written by llama.cpp's tools (GGUF targets)
    #[arg(long, value_name = "FILE", help_heading = QUANTISING)]
    pub(crate) imatrix: Option<PathBuf>,
    /// Use one type for every matrix, no mix (GGUF targets)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) pure: bool,
    /// Do not quantise output.weight (GGUF targets)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) leave_output_tensor: bool,
    /// The type of output.weight, such as q8_0 or f16 (GGUF targets)
    #[arg(long, value_name = "TYPE", help_heading = QUANTISING, value_parser = stored_type)]
    pub(crate) output_tensor_type: Option<Dtype>,
    /// The type of token_embd.weight, such as q8_0 or f16 (GGUF targets)
    #[arg(long, value_name = "TYPE", help_heading = QUANTISING, value_parser = stored_type)]
    pub(crate) token_embedding_type: Option<Dtype>,
    /// The type of tensors whose name matches a regular expression: attn_v=q8_0, 'blk\.[0-3]\.ffn_.*=f16'; the first
    /// match counts (repeatable, GGUF targets)
    #[arg(long, value_name = "REGEX=TYPE", help_heading = QUANTISING, value_parser = tensor_type)]
    pub(crate) tensor_type: Vec<(String, Dtype)>,
    /// Another target for weights that match a pattern: '*.down_proj.weight=w8a16', or none: '*.0.*=keep'; the first
    /// match counts (repeatable)
    #[arg(long, value_name = "GLOB=TARGET", help_heading = QUANTISING, value_parser = rule)]
    pub(crate) rule: Vec<(String, String)>,
    /// Quantise NaN as 0 and infinities as the largest value of their scale, and write weights that overflow when
    /// decoded
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) allow_nonfinite: bool,
    /// Write the output even if no weight is quantised
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) allow_empty: bool,
    /// Show the quantisation error of every weight
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) report: bool,
}

const QUANTISING: &str = "Quantising";

impl QuantizeArgs {
    /// The given options for quantisation.
    pub(crate) fn given_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (self.double_quant, "--double-quant"),
            (self.block_size.is_some(), "--block-size"),
            (self.group_size.is_some(), "--group-size"),
            (self.same_codes, "--same-codes"),
            (self.imatrix.is_some(), "--imatrix"),
            (self.pure, "--pure"),
            (self.leave_output_tensor, "--leave-output-tensor"),
            (self.output_tensor_type.is_some(), "--output-tensor-type"),
            (self.token_embedding_type.is_some(), "--token-embedding-type"),
            (!self.tensor_type.is_empty(), "--tensor-type"),
            (!self.rule.is_empty(), "--rule"),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, option)| option)
    }
}

/// A type by its ggml name.
fn stored_type(text: &str) -> Result<Dtype, String> {
    let wanted = text.to_ascii_uppercase();
    let floats = [Dtype::F32, Dtype::F16, Dtype::BF16].into_iter();
    let mut types = floats.chain(BlockType::all().map(Dtype::Block));
    types
        .find(|dtype| dtype.to_string() == wanted)
        .ok_or_else(|| "write a type such as q4_k, q8_0, f16 or bf16".to_owned())
}

fn tensor_type(text: &str) -> Result<(String, Dtype), String> {
    // The expression may contain `=`, the type does not.
    let parts = text.rsplit_once('=').filter(|(expression, _)| !expression.is_empty());
    let (expression, dtype) = parts.ok_or("write REGEX=TYPE, such as attn_v=q8_0")?;
    Ok((expression.to_owned(), stored_type(dtype)?))
}

fn rule(text: &str) -> Result<(String, String), String> {
    // The name may contain `=`, the target does not.
    let parts = text.rsplit_once('=').filter(|(glob, spec)| !glob.is_empty() && !spec.is_empty());
    let (glob, spec) = parts.ok_or("write GLOB=TARGET, such as '*.down_proj.weight=w8a16', or GLOB=keep")?;
    Ok((glob.to_owned(), spec.to_owned()))
}

#[derive(Debug, Args)]
#[command(after_help = CONVERT_AFTER_HELP)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The target: plain floats as safetensors, gguf, npz or hf (a directory for transformers); or weights of
    /// bitsandbytes (bnb-nf4), FP8 (fp8), compressed-tensors (w4a16), ModelOpt (modelopt-nvfp4), MLX (mlx-4bit), GPTQ
    /// (gptq-4bit), AWQ (awq-4bit), quanto (quanto-int8), HQQ (hqq-4bit), gpt-oss (gpt-oss), ComfyUI (comfy-fp8) or ggml
    /// (q4_k_m); amn formats
    /// lists all [default: from the extension of -o]
    #[arg(long, value_name = "TARGET", value_parser = named::TARGETS, hide_possible_values = true)]
    pub(crate) to: Option<String>,
    /// The output type of decoded weights: bf16, f16 or f32 [default: bf16]; from a model directory to gguf that of
    /// all matrices, also q8_0 and auto [default: auto]
    #[arg(long, value_name = "TYPE", value_parser = named::MATRIX_TYPES, hide_possible_values = true)]
    pub(crate) out_dtype: Option<String>,
    /// Convert plain floats to --out-dtype too
    #[arg(long, value_name = "WHICH")]
    pub(crate) cast: Option<CastArg>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) quantize: QuantizeArgs,
    /// Quantise only weights that match a pattern (repeatable)
    #[arg(long = "quantize", value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) quantized: Vec<String>,
    /// Do not quantise weights that match a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) keep: Vec<String>,
    /// From a model directory to GGUF: keep the tensor names, which llama.cpp does not load
    #[arg(long, help_heading = GGUF)]
    pub(crate) keep_names: bool,
    /// Between a model directory and GGUF: treat the model as one of this class, whatever config.json names
    #[arg(long, value_name = "CLASS", conflicts_with = "keep_names", help_heading = GGUF)]
    pub(crate) like: Option<String>,
    /// From a model directory to GGUF: leave out layers for multi-token prediction
    #[arg(long, conflicts_with = "keep_names", help_heading = GGUF)]
    pub(crate) no_mtp: bool,
    /// From a model directory to GGUF: write only the layers for multi-token prediction, with the embedding, the last norm
    /// and the head: a draft model for speculative decoding
    #[arg(long, conflicts_with_all = ["keep_names", "no_mtp"], help_heading = GGUF)]
    pub(crate) mtp: bool,
    /// From a model directory to GGUF: write the metadata and the vocabulary only, without tensors
    #[arg(long, conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) vocab_only: bool,
    /// From a model directory to GGUF: write matrices that are stored as FP8 as Q8_0
    #[arg(long, conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) fp8_as_q8: bool,
    /// From a model directory of sentence-transformers to GGUF: write its dense modules too (EmbeddingGemma)
    #[arg(long, conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) sentence_transformers_dense_modules: bool,
    /// From a draft model (EAGLE 3, DFlash, DSpark) to GGUF: the directory of the model it predicts for, or hf:org/name
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) target_model_dir: Option<PathBuf>,
    /// From a model directory to GGUF: read Mistral's own files, params.json and consolidated*.safetensors, even if there
    /// are others
    #[arg(long, conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) mistral_format: bool,
    /// Write a big-endian GGUF file, for machines of that byte order
    #[arg(long, help_heading = GGUF)]
    pub(crate) bigendian: bool,
    /// From a multimodal model directory to GGUF: write its vision and audio towers instead of its language model
    #[arg(long, conflicts_with = "keep_names", help_heading = GGUF)]
    pub(crate) mmproj: bool,
    /// From a multimodal model directory to GGUF: write its vision and audio towers too, into a file whose name begins
    /// with mmproj-
    #[arg(long, conflicts_with_all = ["keep_names", "mmproj"], help_heading = GGUF)]
    pub(crate) with_mmproj: bool,
    /// From a LoRA adapter to GGUF: the directory of the model it was trained for, or hf:org/name; only its
    /// config.json is read [default: the model that the adapter names, in the local Hugging Face cache]
    #[arg(long, value_name = "DIR", conflicts_with = "keep_names", help_heading = GGUF)]
    pub(crate) base: Option<PathBuf>,
    /// GGUF metadata, as a JSON object
    #[arg(long, value_name = "FILE", help_heading = GGUF)]
    pub(crate) gguf_metadata: Option<PathBuf>,
    /// A GGUF metadata entry of type string (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = GGUF)]
    pub(crate) gguf_kv: Vec<String>,
    /// Omit a metadata key of the input (repeatable)
    #[arg(long, value_name = "KEY", help_heading = GGUF)]
    pub(crate) gguf_remove_kv: Vec<String>,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
}

const GGUF: &str = "GGUF metadata";

/// Splitting of a GGUF model into files.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// Split the model so that the tensors of a file take at most 2G, 500M, ...
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = SPLITTING)]
    pub(crate) split_max_size: Option<u64>,
    /// Split the model so that a file has at most N tensors
    #[arg(long, value_name = "N", value_parser = tensors, help_heading = SPLITTING)]
    pub(crate) split_max_tensors: Option<usize>,
    /// Split the model like the GGUF input
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors"], help_heading = SPLITTING)]
    pub(crate) keep_split: bool,
}

const SPLITTING: &str = "Several GGUF files";

fn tensors(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "write a number from 1 on".to_owned())
}

impl SplitArgs {
    pub(crate) const fn split(&self) -> Split {
        match (self.keep_split, self.split_max_size, self.split_max_tensors) {
            (true, ..) => Split::AsInput,
            (false, None, None) => Split::Whole,
            (false, bytes, tensors) => Split::AtMost { bytes, tensors },
        }
    }

    /// The first given option.
    pub(crate) fn option(&self) -> Option<&'static str> {
        let given = [
            (self.split_max_size.is_some(), "--split-max-size"),
            (self.split_max_tensors.is_some(), "--split-max-tensors"),
            (self.keep_split, "--keep-split"),
        ];
        given.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
    }
}

/// The plain floats to cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CastArg {
    All,
}

const CONVERT_AFTER_HELP: &str = "\
Plain tensors are copied unless --cast all is given, and blocks are copied from
GGUF to GGUF unless --out-dtype is given. Other quantised tensors are decoded.
A checkpoint directory becomes one file for gguf and npz, and a directory that
loads without changes for the other targets unless -o ends in .safetensors. A
model directory of a known architecture becomes a GGUF file for llama.cpp, with
the names, order, types and keys of its converter.";

#[derive(Debug, Args)]
#[command(after_help = FORGET_AFTER_HELP)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The target: weights of bitsandbytes (bnb-nf4), FP8 (fp8), compressed-tensors (w4a16), ModelOpt (modelopt-nvfp4),
    /// MLX (mlx-4bit), GPTQ (gptq-4bit), AWQ (awq-4bit), quanto (quanto-int8), HQQ (hqq-4bit), gpt-oss (gpt-oss),
    /// ComfyUI (comfy-fp8) or ggml
    /// (q4_k_m); amn formats lists all; with --fit a family (k-quants, compressed-tensors, gptq, mlx) or several targets
    /// separated by commas [default with --fit: k-quants]
    #[arg(long, alias = "scheme", value_name = "TARGET", value_parser = named::ENCODINGS, hide_possible_values = true)]
    #[arg(required_unless_present_any = ["compare", "fit"])]
    pub(crate) to: Option<String>,
    /// Write nothing: show size and quantisation error of several targets, such as fp8,nvfp4,q4_k_m,bnb-nf4
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', value_parser = named::ENCODINGS)]
    #[arg(hide_possible_values = true, conflicts_with_all = ["to", "fit", "output", "force", "dry_run", "part", "provenance"])]
    pub(crate) compare: Vec<String>,
    /// Choose the targets of weights by their errors, so that the model takes at most 12GB, 8GiB, ... with the least
    /// loss
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) fit: Option<u64>,
    /// Quantise only weights that match a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) include: Vec<String>,
    /// Do not quantise weights that match a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) exclude: Vec<String>,
    #[command(flatten)]
    pub(crate) quantize: QuantizeArgs,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// From a model directory to GGUF: keep the tensor names, which llama.cpp does not load
    #[arg(long, help_heading = SELECTING)]
    pub(crate) keep_names: bool,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
}

const FORGET_AFTER_HELP: &str = "\
Matrices are quantised, whatever their names. Embeddings, the output head, norms,
biases and all other tensors are kept; targets for serving keep routers and
vision towers too, those of MLX quantise embeddings and the head. A model that
is already quantised is decoded to BF16 first. --dry-run shows the plan.

Also known as: quantize";
