//! What was typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Parse any tensor file, recover any precision.
#[derive(Debug, Parser)]
#[command(name = "anamnesis", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  amn demo                                  watch it work on a tiny model
  amn inspect model.safetensors             what is inside, how large decoded
  amn remember model.safetensors --to f32   write model-f32.safetensors

Exit codes:
  0 done   1 the input or output failed   2 wrong usage   130 interrupted";

/// How results are told.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List what a file contains: tensors, quantisation, size
    Parse(ParseArgs),
    /// Show how a model is quantised and how large it gets decoded
    #[command(alias = "info")]
    Inspect(InspectArgs),
    /// Decode a quantised model and write it as plain floats
    #[command(alias = "dequantize")]
    Remember(RememberArgs),
    /// Decode a tiny built-in model step by step and check every value
    Demo,
}

#[derive(Debug, Args)]
pub(crate) struct ParseArgs {
    /// The file to read
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// List every tensor with its type, shape, role and size
    #[arg(long, short, visible_alias = "tensors")]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Also known as: info")]
pub(crate) struct InspectArgs {
    /// The file to read
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// The type to assume for decoded weights: bf16, f16 or f32
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    pub(crate) to: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Weights that are not quantised keep their type. A conversion that fails or is interrupted leaves \
    no file behind.\n\nAlso known as: dequantize"
)]
pub(crate) struct RememberArgs {
    /// The quantised model
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// The type of decoded weights: bf16, f16 or f32
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    pub(crate) to: String,
    /// Where to write [default: beside FILE, named after the type]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Worker threads [default: one per core, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Show what would be written, tensor by tensor, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

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
