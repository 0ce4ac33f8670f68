//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;

use super::looking::RunArgs;
use super::{ChoiceArgs, InputArgs, ProvenanceArgs, named};

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// A model to measure errors against, such as the one before quantising
    #[arg(value_name = "REFERENCE")]
    pub(crate) second: Option<PathBuf>,
    /// The page [default: report.html]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Measure the errors of quantising to this target instead
    #[arg(long, value_name = "TARGET", value_parser = named::ENCODINGS, hide_possible_values = true)]
    #[arg(conflicts_with = "second")]
    pub(crate) to: Option<String>,
    /// Read headers only: no statistics, histograms and pictures
    #[arg(long, conflicts_with_all = ["second", "to"])]
    pub(crate) headers_only: bool,
    /// Replace an existing page
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) provenance: ProvenanceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

const AFTER_HELP: &str = "\
The page is one file that loads nothing: overview, modules by size, storage and
errors layer by layer, histograms, pictures of the largest tensors, and a table
of all tensors to sort and to search.";
