//! Arguments of the commands that look at values: `stats`, `diff`, `hash` and `show`.

use std::path::PathBuf;

use anamnesis::{CpuLevel, RememberOptions};
use clap::Args;

use super::convert::Threads;
use super::{ChoiceArgs, InputArgs, ProvenanceArgs, named};
use crate::exit::Failure;
use crate::interrupt;

/// Options for measuring.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Worker threads: a number, or auto for one per core
    #[arg(long, value_name = "N", value_parser = Threads::parse, default_value = "auto")]
    pub(crate) threads: Threads,
}

impl RunArgs {
    pub(crate) fn options(&self, cpu: CpuLevel) -> Result<RememberOptions, Failure> {
        let mut options = RememberOptions::new().with_cancel(interrupt::token()?).with_cpu_level(cpu);
        options.threads = self.threads.count();
        Ok(options)
    }
}

#[derive(Debug, Args)]
#[command(after_help = STATS_AFTER_HELP)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Sort by a key, the largest first; name is the default
    #[arg(long, value_name = "KEY")]
    pub(crate) sort: Option<String>,
    /// List only tensors for which this holds, like 'nan>0' or 'max>=100' (repeatable)
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
    /// Exit with 1 if a tensor has some: nan, infinite, outliers, or a condition like 'zeros>100' (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_on: Vec<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

const STATS_AFTER_HELP: &str = "\
Keys: name, values, min, max, mean, deviation, zeros, nan, infinite, outliers.
A condition is a key, one of > >= < <= = !=, and a number.

Values are decoded to f32. Extremes, mean, deviation and histogram are those of
the finite values; an outlier is more than six deviations away from the mean.

Exit codes:
  0  done   1  a file is at fault, or a condition of --fail-on holds
  2  the command line is at fault";

#[derive(Debug, Args)]
#[command(after_help = DIFF_AFTER_HELP)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The model to compare with
    pub(crate) second: PathBuf,
    /// Allow values to differ by this much
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) tolerance: Option<f64>,
    /// Decode both to this type first: bf16, f16 or f32 [default: f32]
    #[arg(long, value_name = "TYPE", value_parser = named::DTYPES, hide_possible_values = true)]
    pub(crate) to: Option<String>,
    /// Compare tensors by their own names, even if GGUF has others for the model
    #[arg(long)]
    pub(crate) keep_names: bool,
    /// List all tensors, not only the worst ones
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

const DIFF_AFTER_HELP: &str = "\
Any two formats can be compared. A GGUF file is compared with a Hugging Face
checkpoint by the names that a conversion gives its tensors.

Exit codes:
  0  the same tensors with the same values, or within --tolerance
  1  they differ, or a file is at fault   2  the command line is at fault";

#[derive(Debug, Args)]
#[command(after_help = HASH_AFTER_HELP)]
pub(crate) struct HashArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Hash decoded values instead of stored bytes
    #[arg(long)]
    pub(crate) decoded: bool,
    /// With --decoded: the type of the values: bf16, f16 or f32 [default: f32]
    #[arg(long, value_name = "TYPE", value_parser = named::DTYPES, hide_possible_values = true, requires = "decoded")]
    pub(crate) to: Option<String>,
    /// Write the hashes to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) provenance: ProvenanceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

const HASH_AFTER_HELP: &str = "\
Prints the SHA-256 of every tensor and of the whole. Shards, the order of tensors
and the container do not matter. To check a model later:
  amn hash model -o model.hash
  amn verify model --against model.hash";

#[derive(Debug, Args)]
#[command(after_help = SHOW_AFTER_HELP)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The tensor, with an optional slice in NumPy's syntax: 'model.norm.weight[:10]'
    pub(crate) tensor: String,
    /// Show codes and scales as they are stored
    #[arg(long, conflicts_with = "heat")]
    pub(crate) stored: bool,
    /// Draw the magnitudes of a matrix
    #[arg(long)]
    pub(crate) heat: bool,
    /// Write the values to a file that ends in .npy, .safetensors, .csv or .png
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) provenance: ProvenanceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

const SHOW_AFTER_HELP: &str = "\
Examples:
  amn show model.gguf 'token_embd.weight[0]'
  amn show model.safetensors 'model.layers.0.mlp.up_proj.weight[-3:, ::64]'
  amn show model.gguf token_embd.weight --heat
  amn show model.safetensors 'lm_head.weight[:100]' -o rows.npy

Only the tiles that contain requested values are read and decoded.";

fn tolerance(text: &str) -> Result<f64, String> {
    let allowed = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    allowed.ok_or_else(|| "write a number that is not negative, like 0.001 or 1e-5".to_owned())
}
