//! Command-line arguments.

mod convert;
mod limit;
mod looking;
mod named;
mod network;
mod provenance;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anamnesis::{Dtype, GptqFormat, OpenOptions, Rounding};
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::ui::{style, width};

/// Parse any tensor file, recover any precision.
#[derive(Debug, Parser)]
#[command(name = "anamnesis", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// All arguments after the name of the program, as they were given.
    #[arg(skip)]
    pub(crate) arguments: Vec<String>,
}

impl Cli {
    /// Parses the arguments.
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let definition = Self::command().color(style::choice_in(arguments)).term_width(width::help_columns());
        let mut cli = Self::from_arg_matches_mut(&mut definition.try_get_matches_from(arguments)?)?;
        cli.arguments = arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
        Ok(cli)
    }
}

const AFTER_HELP: &str = "\
Examples:
  amn demo                                  decode a tiny built-in model
  amn inspect model.safetensors             schemes, sizes, decoded size
  amn remember model.safetensors --to f32   write model-f32.safetensors
  amn remember Llama-3.1-8B-FP8/            write Llama-3.1-8B-bf16/
  amn convert model.gguf --to safetensors   write model-bf16.safetensors
  amn forget Llama-3.1-8B/ --to bnb-nf4     write Llama-3.1-8B-bnb-nf4/

Environment:
  AMN_CPU=portable|v3|v4   the CPU level to use, instead of the best

Exit codes:
  0 done   1 a file is at fault, of the input or of the output
  2 the command line is at fault   130, 143 interrupted";

/// Options for output.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(long, short, global = true, display_order = 101)]
    pub(crate) quiet: bool,
    /// Print decisions, their reasons and timings too
    #[arg(long, short, global = true, display_order = 102, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        display_order = 103,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the tensors, schemes and size of a file or checkpoint
    Parse(ParseArgs),
    /// Show how a model is quantised, and its decoded size
    #[command(alias = "info")]
    Inspect(InspectArgs),
    /// Show the tensors of a model with their names folded
    Tree(TreeArgs),
    /// Write a page about a model, optionally against another
    Report(ReportArgs),
    /// Decode a quantised model to plain floats
    #[command(alias = "dequantize")]
    Remember(RememberArgs),
    /// Convert a model to another format, optionally quantised
    Convert(ConvertArgs),
    /// Quantise a model
    #[command(alias = "quantize")]
    Forget(ForgetArgs),
    /// Check that a checkpoint is complete and consistent
    Verify(VerifyArgs),
    /// Show the statistics of every tensor's values
    Stats(StatsArgs),
    /// Compare the tensors of two models
    Diff(DiffArgs),
    /// Print the SHA-256 of every tensor
    Hash(HashArgs),
    /// Show values of a tensor, as a table, a picture or a file
    Show(ShowArgs),
    /// List the imports of a file's pickles, without running them
    Scan(ScanArgs),
    /// List the supported formats, schemes, targets and types
    Formats,
    /// Decode a tiny built-in model step by step and check every value
    Demo,
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the manual page of amn or of a command
    Man(ManArgs),
}

pub(crate) use convert::{
    CastArg, ChoiceArgs, ConvertArgs, ForgetArgs, QuantizeArgs, SelectArgs, SplitArgs, WriteArgs,
};

pub(crate) use limit::{Limit, LimitArgs};
pub(crate) use looking::{DiffArgs, HashArgs, ShowArgs, StatsArgs};
pub(crate) use network::NetworkArgs;
pub(crate) use provenance::ProvenanceArgs;
pub(crate) use report::ReportArgs;

/// The input, and options for reading it.
#[derive(Debug, Clone, Args)]
pub(crate) struct InputArgs {
    /// A file, a checkpoint directory or its index, https://HOST/FILE,
    /// hf:ORG/NAME[@REVISION][/FILE], ollama:NAME[:TAG], or - for standard input
    pub(crate) path: PathBuf,
    /// Read this file alone, even if it is one shard of a set
    #[arg(long, help_heading = READING)]
    pub(crate) only_this_file: bool,
    /// Read only this part of a nested checkpoint, such as model.encoder
    #[arg(long, value_name = "PATH", help_heading = READING, conflicts_with = "all")]
    pub(crate) select: Option<String>,
    /// Read all of a nested checkpoint, not only the model's weights
    #[arg(long, help_heading = READING)]
    pub(crate) all: bool,
    /// Omit values that cannot be read as tensors, with a note
    #[arg(long, help_heading = READING)]
    pub(crate) skip_unsupported: bool,
    /// Treat tensors that look like stray parts of a weight as plain data, with a note
    #[arg(long, help_heading = READING)]
    pub(crate) allow_unclaimed: bool,
    /// Set the type of a NumPy array whose file does not record it: weight=e4m3
    #[arg(long, value_name = "NAME=TYPE", help_heading = READING, value_parser = npy_dtype)]
    pub(crate) npy_dtype: Vec<(String, Dtype)>,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Read the model's configuration from this file instead
    #[arg(long, value_name = "FILE", help_heading = READING)]
    pub(crate) config: Option<PathBuf>,
    /// Set how GPTQ weights store their zero points: v1 (minus one) or v2
    #[arg(long, value_name = "FORMAT", help_heading = READING, value_parser = gptq_format)]
    pub(crate) gptq_format: Option<GptqFormat>,
    /// Compute in f32 and round once, or as the format's own library does
    #[arg(long, value_name = "ARITH", help_heading = READING, default_value = "f32", hide_default_value = true)]
    pub(crate) arith: ArithArg,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// Arithmetic of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArithArg {
    /// In f32, rounded once to the output type (the default)
    F32,
    /// As in the format's own library, which may round after every operation
    Reference,
}

/// The path that means standard input or standard output.
pub(crate) const STREAM: &str = "-";

const READING: &str = "Reading options";

impl InputArgs {
    /// The same options for another input.
    pub(crate) fn again(&self, path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            select: self.select.clone(),
            npy_dtype: self.npy_dtype.clone(),
            limit: self.limit.clone(),
            config: None,
            ..*self
        }
    }

    /// Whether it is standard input.
    pub(crate) fn is_stream(&self) -> bool {
        self.path.as_os_str() == STREAM
    }

    /// The options for the library.
    pub(crate) fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().with_all(self.all).with_skip_unsupported(self.skip_unsupported);
        options.allow_unclaimed = self.allow_unclaimed;
        options.limits = self.limit.all();
        options.select.clone_from(&self.select);
        options.npy_dtypes.clone_from(&self.npy_dtype);
        options.config = self.config.clone().map(Into::into);
        options.gptq_format = self.gptq_format;
        options.rounding = match self.arith {
            ArithArg::F32 => Rounding::Once,
            ArithArg::Reference => Rounding::AsLibrary,
        };
        options
    }
}

fn gptq_format(text: &str) -> Result<GptqFormat, String> {
    text.parse().map_err(|_| "write v1 or v2".to_owned())
}

/// `NAME=TYPE`, with a safetensors dtype or the short name of an eight-bit float.
fn npy_dtype(text: &str) -> Result<(String, Dtype), String> {
    let short = |name: &str| match name {
        "E4M3" | "E4M3FN" => Some(Dtype::F8E4M3),
        "E5M2" => Some(Dtype::F8E5M2),
        "E4M3FNUZ" => Some(Dtype::F8E4M3Fnuz),
        "E5M2FNUZ" => Some(Dtype::F8E5M2Fnuz),
        "E8M0" => Some(Dtype::F8E8M0),
        name => Dtype::from_name(name),
    };
    let parsed = text.rsplit_once('=').and_then(|(name, dtype)| Some((name, short(&dtype.to_ascii_uppercase())?)));
    match parsed {
        Some((name, dtype)) if !name.is_empty() => Ok((name.to_owned(), dtype)),
        _ => Err("write NAME=TYPE with a type like e4m3, e5m2, bf16 or f32".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct ParseArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// List every tensor of a file with its type, shape (in file order: GGUF has the fastest-varying dimension
    /// first), role and size
    #[arg(long, short, visible_alias = "tensors")]
    pub(crate) list: bool,
    /// Sort by name, by size (largest first) or by dtype
    #[arg(long, value_name = "BY", hide_possible_values = true)]
    pub(crate) sort: Option<SortBy>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

/// A sort order of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    Name,
    // Largest first.
    Size,
    // Then by name.
    Dtype,
}

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

const COMPLETIONS_AFTER_HELP: &str = "\
bash  amn completions bash > ~/.local/share/bash-completion/completions/amn
fish  amn completions fish > ~/.config/fish/completions/amn.fish
zsh   amn completions zsh > a folder of $fpath, as _amn";

#[derive(Debug, Args)]
#[command(after_help = "To read one: amn man remember | man -l -")]
pub(crate) struct ManArgs {
    /// The command whose page to print [default: amn itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) topic: Option<String>,
    /// Write the pages of all commands into a folder
    #[arg(long, value_name = "DIR", conflicts_with = "topic")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Also known as: info")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The output type of decoded weights: bf16, f16 or f32
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    #[arg(value_parser = named::DTYPES, hide_possible_values = true)]
    pub(crate) to: String,
    /// The number of tokens to give the memory of the cache for [default: the model's longest context]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context: Option<u64>,
    /// Print the metadata with types instead: all of it, or the value of KEY
    #[arg(long)]
    pub(crate) metadata: bool,
    /// With --metadata: the key whose value to print in full
    // A positional argument, so that the path may be on either side of --metadata.
    #[arg(requires = "metadata")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = TREE_AFTER_HELP)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Cut names after so many pieces, not counting numbers
    #[arg(long, value_name = "PIECES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Sort by name, by size (largest first) or by count (most first)
    #[arg(long, value_name = "BY", default_value = "name", hide_possible_values = true)]
    pub(crate) sort: TreeOrder,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

/// An order of folded tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeOrder {
    Name,
    Size,
    Count,
}

const TREE_AFTER_HELP: &str = "\
Tensors of the same shape and type share a line: [0-31] are the numbers that
occur, {gate,up} the alternatives. A name whose shape or type differs in some
layers has its odd ones listed apart.";

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A file, a checkpoint directory or its index, https://HOST/FILE,
    /// hf:ORG/NAME[@REVISION][/FILE], ollama:NAME[:TAG], or - for standard input
    #[arg(required_unless_present = "provenance")]
    pub(crate) path: Option<PathBuf>,
    /// Compare the tensors with hashes that amn hash has printed
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Compare files with the statement that --provenance of another command wrote: all of its files, the outputs in the
    /// folder PATH, or the file PATH
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    pub(crate) provenance: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// A format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanFormat {
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Debug, Args)]
#[command(after_help = SCAN_AFTER_HELP)]
pub(crate) struct ScanArgs {
    /// A PyTorch file, a pickle, a NumPy array or an archive of them, https://HOST/FILE, or - for standard input; for a
    /// directory, hf:ORG/NAME[@REVISION] or ollama:NAME[:TAG], all such files in it
    pub(crate) path: PathBuf,
    /// Print a SARIF log instead of text, for code scanning services
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<ScanFormat>,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

const SCAN_AFTER_HELP: &str = "\
A pickle is a program: loading one with Python can run arbitrary code. Nothing is
run here. Every global that a pickle would import is listed with its offset and
whether a conversion accepts it; refused ones are graded as known to run code,
or unknown. Pickles of an archive that neither a conversion nor PyTorch loads
are marked: they do not stop a conversion, but the file is not called safe,
since another program may load them.

Exit codes:
  0  safe, or there are no pickles
  1  a pickle refers to code, loaded or not, or is malformed
  2  the command line is at fault";

#[derive(Debug, Args)]
#[command(after_help = REMEMBER_AFTER_HELP)]
pub(crate) struct RememberArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The output type of decoded weights: bf16, f16 or f32 [default: bf16]
    #[arg(long, value_name = "TYPE", value_parser = named::DTYPES, hide_possible_values = true)]
    pub(crate) to: Option<String>,
    /// Convert plain floats to that type too
    #[arg(long, value_name = "WHICH")]
    pub(crate) cast: Option<CastArg>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

const REMEMBER_AFTER_HELP: &str = "\
A file becomes a file; a directory, its index, one shard of a set, or a model
in the local Hugging Face cache becomes a directory that loads without changes,
or one file if -o ends in .safetensors. A split GGUF model becomes one file.

Weights that are not quantised keep their type unless --cast all is given.
Files appear complete or not at all. An interrupted directory is resumed by the
same command; --force starts again.

Also known as: dequantize";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn known_aliases_are_accepted() {
        for (line, wanted) in [
            ("amn info x", "Inspect"),
            ("amn dequantize x", "Remember"),
            ("amn parse --tensors x", "list: true"),
            ("amn forget x --scheme fp8-fine-grained", "to: Some(\"fp8-fine-grained\")"),
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(format!("{:?}", cli.command).contains(wanted), "{line}");
        }
    }
}
