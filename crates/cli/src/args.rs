//! What was typed.

mod convert;
mod limit;
mod named;

use std::ffi::OsString;
use std::path::PathBuf;

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
}

impl Cli {
    /// What the arguments say.
    pub(crate) fn typed(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let definition = Self::command().color(style::typed_choice(arguments)).term_width(width::of_help());
        Self::from_arg_matches_mut(&mut definition.try_get_matches_from(arguments)?)
    }
}

const AFTER_HELP: &str = "\
Examples:
  amn demo                                  watch it work on a tiny model
  amn inspect model.safetensors             what is inside, how large decoded
  amn remember model.safetensors --to f32   write model-f32.safetensors
  amn remember Llama-3.1-8B-FP8/            write Llama-3.1-8B-bf16/, to load
  amn convert model.gguf --to safetensors   write model-bf16.safetensors
  amn forget Llama-3.1-8B/ --to bnb-nf4     write Llama-3.1-8B-bnb-nf4/

Environment:
  AMN_CPU=portable|v3|v4   the CPU instructions to use, instead of the best

Exit codes:
  0 done   1 a file is at fault, of the input or of the output
  2 what was typed is at fault   130, 143 interrupted";

/// How results are told.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(long, short, global = true, display_order = 101)]
    pub(crate) quiet: bool,
    /// Tell what was decided and why, and how long it took
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
    /// List what a file or checkpoint contains: tensors, schemes, size
    Parse(ParseArgs),
    /// Show how a model is quantised and how large it gets decoded
    #[command(alias = "info")]
    Inspect(InspectArgs),
    /// Decode a quantised model and write it as plain floats
    #[command(alias = "dequantize")]
    Remember(RememberArgs),
    /// Convert a model to another format, and quantise it where asked
    Convert(ConvertArgs),
    /// Quantise a model
    #[command(alias = "quantize")]
    Forget(ForgetArgs),
    /// Check that a checkpoint is complete and sound
    Verify(VerifyArgs),
    /// List what the pickles of a file refer to, without running them
    Scan(ScanArgs),
    /// List what this build reads, writes, decodes and encodes
    Formats,
    /// Decode a tiny built-in model step by step and check every value
    Demo,
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page of amn or of a command
    Man(ManArgs),
}

pub(crate) use convert::{
    CastArg, ChoiceArgs, ConvertArgs, ForgetArgs, QuantizeArgs, SelectArgs, SplitArgs, WriteArgs,
};

pub(crate) use limit::{Limit, LimitArgs};

/// What to read, and how where the file leaves a choice.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// A file, a checkpoint directory or its index, hf:ORG/NAME[@REVISION],
    /// ollama:NAME[:TAG], or - for standard input
    pub(crate) path: PathBuf,
    /// Take this file by itself, even where it is one shard of a set
    #[arg(long, help_heading = READING)]
    pub(crate) only_this_file: bool,
    /// Take only this part of a nested checkpoint, such as model.encoder
    #[arg(long, value_name = "PATH", help_heading = READING, conflicts_with = "all")]
    pub(crate) select: Option<String>,
    /// Take everything of a nested checkpoint, not only the model's weights
    #[arg(long, help_heading = READING)]
    pub(crate) all: bool,
    /// Leave out, and tell, what cannot be held as a tensor
    #[arg(long, help_heading = READING)]
    pub(crate) skip_unsupported: bool,
    /// Take as plain data, and tell, what looks like a stray part of a weight
    #[arg(long, help_heading = READING)]
    pub(crate) allow_unclaimed: bool,
    /// Say the type of a NumPy array whose file cannot: weight=e4m3
    #[arg(long, value_name = "NAME=TYPE", help_heading = READING, value_parser = npy_dtype)]
    pub(crate) npy_dtype: Vec<(String, Dtype)>,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Read the model's configuration from this file, not beside the weights
    #[arg(long, value_name = "FILE", help_heading = READING)]
    pub(crate) config: Option<PathBuf>,
    /// Say how GPTQ weights store their zero points: v1 (less one) or v2
    #[arg(long, value_name = "FORMAT", help_heading = READING, value_parser = gptq_format)]
    pub(crate) gptq_format: Option<GptqFormat>,
    /// Calculate in f32 and round once, or as the format's own library does
    #[arg(long, value_name = "ARITH", help_heading = READING, default_value = "f32", hide_default_value = true)]
    pub(crate) arith: ArithArg,
}

/// By whose arithmetic weights are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArithArg {
    /// In f32, rounded once to the output type (the default)
    F32,
    /// As the format's own library, which may round after every operation
    Reference,
}

/// What standard input and standard output are called in place of a path.
pub(crate) const STREAM: &str = "-";

const READING: &str = "Reading options";

impl InputArgs {
    /// Whether it is standard input.
    pub(crate) fn is_stream(&self) -> bool {
        self.path.as_os_str() == STREAM
    }

    /// The same as the library takes it.
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

/// `NAME=TYPE`, the type by its name in safetensors or the short one of an eight-bit float.
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
    /// List every tensor of a file with its type, shape (in the order of the file:
    /// GGUF has the dimension that varies fastest first), role and size
    #[arg(long, short, visible_alias = "tensors")]
    pub(crate) list: bool,
    /// List by name, by size with the largest first, or by dtype
    #[arg(long, value_name = "BY", hide_possible_values = true)]
    pub(crate) sort: Option<SortBy>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

/// An order of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    Name,
    // The largest first.
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
    /// Write the pages of all commands into a folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "topic")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Also known as: info")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The type to assume for decoded weights: bf16, f16 or f32
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    #[arg(value_parser = named::DTYPES, hide_possible_values = true)]
    pub(crate) to: String,
    /// Print the metadata instead, with types: all of it, or the value of KEY
    #[arg(long)]
    pub(crate) metadata: bool,
    /// With --metadata: the key whose value to print, whole
    // A place of its own, so that the path may stand on either side of --metadata.
    #[arg(requires = "metadata")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A file, a checkpoint directory or its index, hf:ORG/NAME[@REVISION],
    /// ollama:NAME[:TAG], or - for standard input
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
}

#[derive(Debug, Args)]
#[command(after_help = SCAN_AFTER_HELP)]
pub(crate) struct ScanArgs {
    /// A PyTorch file, a pickle, a NumPy array or an archive of them, or - for
    /// standard input; a directory, hf:ORG/NAME[@REVISION] or ollama:NAME[:TAG] for
    /// every such file in it
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
}

const SCAN_AFTER_HELP: &str = "\
A pickle is a program: loading one with Python can run anything. Nothing is run
here. Every name that a pickle would import is listed with its place in the
pickle, and whether a conversion accepts it; those that it does not are graded:
known to run code, or unknown. A pickle of an archive that neither a conversion
nor PyTorch loads is marked: a conversion goes on without it, but the file is
not called safe, since another program may load it.

Exit codes:
  0  safe, or there are no pickles
  1  a pickle refers to code, loaded or not, or is malformed
  2  what was typed is at fault";

#[derive(Debug, Args)]
#[command(after_help = REMEMBER_AFTER_HELP)]
pub(crate) struct RememberArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The type of decoded weights: bf16, f16 or f32 [default: bf16]
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
in the local Hugging Face cache becomes a directory that loads as it is, or one
file where -o ends in .safetensors. A split GGUF model becomes one file.

Weights that are not quantised keep their type unless --cast all is given.
Files appear complete or not at all. A directory that was interrupted goes on
when the same command runs again; --force starts it again.

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
    fn known_aliases_are_understood() {
        for (line, wanted) in
            [("amn info x", "Inspect"), ("amn dequantize x", "Remember"), ("amn parse --tensors x", "list: true")]
        {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(format!("{:?}", cli.command).contains(wanted), "{line}");
        }
    }
}
