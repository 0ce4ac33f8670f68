//! What was typed for `convert` and `forget`, and what they share with other commands.

use std::path::PathBuf;

use anamnesis::{BlockType, DirectoryOptions, Dtype, GroupSize, Part, Selection, Split};
use clap::{Args, ValueEnum};

use super::{InputArgs, named};
use crate::exit::{Failure, about};
use crate::ui::size;

/// How many workers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// As many as the machine has cores for.
    Auto,
    Count(usize),
}

impl Threads {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 1..=256) => Ok(Self::Count(count)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err("write a number from 1 to 256, or auto".to_owned()),
        }
    }

    /// The number, where one was typed.
    pub(crate) const fn count(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Count(count) => Some(count),
        }
    }
}

/// Which tensors are taken, and what they are called.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
}

/// Which tensors are taken.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// Take only tensors that fit a pattern: 'model.layers.[0-3].*' (repeatable)
    #[arg(long, alias = "filter", value_name = "GLOB", help_heading = SELECTING)]
    pub(crate) include: Vec<String>,
    /// Leave out tensors that fit a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = SELECTING)]
    pub(crate) exclude: Vec<String>,
}

/// What tensors are called in the output.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Rename tensors: 's/REGEX/REPLACEMENT/' or '.../g' (repeatable)
    #[arg(long, value_name = "S/.../.../", help_heading = SELECTING)]
    pub(crate) rename: Vec<String>,
    /// Put TEXT in front of every name
    #[arg(long, value_name = "TEXT", help_heading = SELECTING)]
    pub(crate) prefix: Option<String>,
    /// Take TEXT off the names that start with it
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

    /// What was chosen.
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

/// How an output is written.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Where to write, - for standard output [default: beside PATH, named after
    /// the type]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Worker threads: a number, or auto for one per core that may be used
    #[arg(long, value_name = "N", value_parser = Threads::parse, default_value = "auto")]
    pub(crate) threads: Threads,
    /// Show what would be written, tensor by tensor, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Directories: begin a new file at 500MB, 4GiB, ... [default: 5GB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) shard_size: Option<u64>,
    /// Directories: write one weight file, however large
    #[arg(long, conflicts_with = "shard_size")]
    pub(crate) single_file: bool,
    /// Directories: write one share only; 3/8 is the third of eight
    // A part that starts again would remove what the other parts have written.
    #[arg(long, value_name = "I/N", conflicts_with = "force")]
    pub(crate) part: Option<Part>,
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

    /// The first option given that shapes the output of a checkpoint directory.
    pub(crate) fn option_of_directories(&self) -> Option<&'static str> {
        let given = [
            (self.shard_size.is_some(), "--shard-size"),
            (self.single_file, "--single-file"),
            (self.part.is_some(), "--part"),
        ];
        given.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
    }
}

/// How weights are quantised.
#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// Quantise the block scales too (bnb-nf4, bnb-fp4)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) double_quant: bool,
    /// Values under one scale (bnb-nf4, bnb-fp4) [default: 64]
    #[arg(long, value_name = "N", help_heading = QUANTISING)]
    pub(crate) block_size: Option<usize>,
    /// Values of a row under one scale, or channel for all of it (w4a16, mlx-4bit …)
    #[arg(long, value_name = "N", help_heading = QUANTISING)]
    pub(crate) group_size: Option<GroupSize>,
    /// Keep codes and scales that mean the same in the target, whatever libraries
    /// round in half precision (GPTQ, MLX, w4a16 …)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) same_codes: bool,
    /// How important values are, as llama.cpp's tools measure it (GGUF targets)
    #[arg(long, value_name = "FILE", help_heading = QUANTISING)]
    pub(crate) imatrix: Option<PathBuf>,
    /// One type for every matrix, no mix (GGUF targets)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) pure: bool,
    /// Leave output.weight as it is (GGUF targets)
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) leave_output_tensor: bool,
    /// The type of output.weight, such as q8_0 or f16 (GGUF targets)
    #[arg(long, value_name = "TYPE", help_heading = QUANTISING, value_parser = stored_type)]
    pub(crate) output_tensor_type: Option<Dtype>,
    /// The type of token_embd.weight, such as q8_0 or f16 (GGUF targets)
    #[arg(long, value_name = "TYPE", help_heading = QUANTISING, value_parser = stored_type)]
    pub(crate) token_embedding_type: Option<Dtype>,
    /// The type of tensors whose names a regular expression is found in:
    /// attn_v=q8_0, 'blk\.[0-3]\.ffn_.*=f16'; the first that fits counts
    /// (repeatable, GGUF targets)
    #[arg(long, value_name = "REGEX=TYPE", help_heading = QUANTISING, value_parser = tensor_type)]
    pub(crate) tensor_type: Vec<(String, Dtype)>,
    /// Quantise weights that fit a pattern otherwise: '*.down_proj.weight=w8a16', or
    /// not at all: '*.0.*=keep'; the first that fits counts (repeatable)
    #[arg(long, value_name = "GLOB=TARGET", help_heading = QUANTISING, value_parser = rule)]
    pub(crate) rule: Vec<(String, String)>,
    /// Quantise NaN as 0 and infinities as the largest value under their scale,
    /// and write weights that a type cannot hold and that decode to infinities
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) allow_nonfinite: bool,
    /// Write the output even where no weight is quantised
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) allow_empty: bool,
    /// Show the error of every quantised weight
    #[arg(long, help_heading = QUANTISING)]
    pub(crate) report: bool,
}

const QUANTISING: &str = "Quantising";

impl QuantizeArgs {
    /// The options given that say how weights are quantised.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
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

/// A type by the name that ggml has for it.
fn stored_type(text: &str) -> Result<Dtype, String> {
    let wanted = text.to_ascii_uppercase();
    let floats = [Dtype::F32, Dtype::F16, Dtype::BF16].into_iter();
    let mut types = floats.chain(BlockType::all().map(Dtype::Block));
    types
        .find(|dtype| dtype.to_string() == wanted)
        .ok_or_else(|| "write a type such as q4_k, q8_0, f16 or bf16".to_owned())
}

fn tensor_type(text: &str) -> Result<(String, Dtype), String> {
    // An expression may have such a sign, a type has none.
    let parts = text.rsplit_once('=').filter(|(expression, _)| !expression.is_empty());
    let (expression, dtype) = parts.ok_or("write REGEX=TYPE, such as attn_v=q8_0")?;
    Ok((expression.to_owned(), stored_type(dtype)?))
}

fn rule(text: &str) -> Result<(String, String), String> {
    // A name may have such a sign, a target has none.
    let parts = text.rsplit_once('=').filter(|(glob, spec)| !glob.is_empty() && !spec.is_empty());
    let (glob, spec) = parts.ok_or("write GLOB=TARGET, such as '*.down_proj.weight=w8a16', or GLOB=keep")?;
    Ok((glob.to_owned(), spec.to_owned()))
}

#[derive(Debug, Args)]
#[command(after_help = CONVERT_AFTER_HELP)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// What to write: safetensors, gguf, npz, fp8, w4a16, q4_k_m … as amn formats
    /// lists them [default: what -o ends in]
    #[arg(long, value_name = "TARGET", value_parser = named::TARGETS, hide_possible_values = true)]
    pub(crate) to: Option<String>,
    /// The type of decoded weights: bf16, f16 or f32 [default: bf16]; from a
    /// model directory to gguf of all matrices, also q8_0 and auto [default:
    /// auto]
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
    /// Quantise weights that fit a pattern and no others (repeatable)
    #[arg(long = "quantize", value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) quantized: Vec<String>,
    /// Do not quantise weights that fit a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) keep: Vec<String>,
    /// From a model directory to GGUF: keep the names of tensors, which llama.cpp
    /// does not know
    #[arg(long, help_heading = GGUF)]
    pub(crate) keep_names: bool,
    /// Metadata for a GGUF file, as a JSON object
    #[arg(long, value_name = "FILE", help_heading = GGUF)]
    pub(crate) gguf_metadata: Option<PathBuf>,
    /// One metadata entry of text for a GGUF file (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = GGUF)]
    pub(crate) gguf_kv: Vec<String>,
    /// Leave out a metadata key of the input (repeatable)
    #[arg(long, value_name = "KEY", help_heading = GGUF)]
    pub(crate) gguf_remove_kv: Vec<String>,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
}

const GGUF: &str = "GGUF metadata";

/// How a GGUF model is cut into files.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// Cut the model where the tensors of a file would be more than 2G, 500M, ...
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = SPLITTING)]
    pub(crate) split_max_size: Option<u64>,
    /// Cut the model where a file would have more than N tensors
    #[arg(long, value_name = "N", value_parser = tensors, help_heading = SPLITTING)]
    pub(crate) split_max_tensors: Option<usize>,
    /// Cut the model as the GGUF input is cut
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

    /// The first option given.
    pub(crate) fn option(&self) -> Option<&'static str> {
        let given = [
            (self.split_max_size.is_some(), "--split-max-size"),
            (self.split_max_tensors.is_some(), "--split-max-tensors"),
            (self.keep_split, "--keep-split"),
        ];
        given.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
    }
}

/// Which plain floats are cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CastArg {
    All,
}

const CONVERT_AFTER_HELP: &str = "\
What needs no change is copied: plain tensors keep their type unless --cast all
is given, and blocks go from GGUF to GGUF as they are unless --out-dtype is.
Everything else that is quantised is decoded. A checkpoint directory becomes
one file for gguf and npz, and a directory that loads as it is for the other
targets unless -o ends in .safetensors. A model directory of a known
architecture becomes a GGUF file that llama.cpp runs: names, order, types and
keys of its converter.";

#[derive(Debug, Args)]
#[command(after_help = FORGET_AFTER_HELP)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// What to make of the weights: fp8, w4a16, q4_k_m … as amn formats lists them;
    /// with --fit a family (k-quants, compressed-tensors, gptq, mlx) or several
    /// targets with commas [default with --fit: k-quants]
    #[arg(long, value_name = "TARGET", value_parser = named::ENCODINGS, hide_possible_values = true)]
    #[arg(required_unless_present_any = ["compare", "fit"])]
    pub(crate) to: Option<String>,
    /// Write nothing: show the size and the error of several targets,
    /// such as fp8,nvfp4,q4_k_m,bnb-nf4
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', value_parser = named::ENCODINGS)]
    #[arg(hide_possible_values = true, conflicts_with_all = ["to", "fit", "output", "force", "dry_run", "part"])]
    pub(crate) compare: Vec<String>,
    /// Choose the types of weights by their errors, so that all fits in 12GB,
    /// 8GiB, ... and as little as possible is lost
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) fit: Option<u64>,
    /// Quantise weights that fit a pattern and no others (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) include: Vec<String>,
    /// Do not quantise weights that fit a pattern (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = QUANTISING)]
    pub(crate) exclude: Vec<String>,
    #[command(flatten)]
    pub(crate) quantize: QuantizeArgs,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// From a model directory to GGUF: keep the names of tensors, which llama.cpp
    /// does not know
    #[arg(long, help_heading = SELECTING)]
    pub(crate) keep_names: bool,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
}

const FORGET_AFTER_HELP: &str = "\
Matrices are quantised, whatever their names. Embeddings, the head, norms,
biases and everything that is no matrix stay as they are; targets for serving
keep routers and vision towers too, those of MLX quantise embeddings and the
head. A model that is quantised already is decoded to BF16 first. --dry-run
shows what would be done.

Also known as: quantize";
