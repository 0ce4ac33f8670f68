//! Commands, one file each.

mod components;
mod convert;
mod demo;
mod described;
mod diff;
mod forget;
mod formats;
mod hash;
mod inspect;
mod manual;
mod natural;
mod open;
mod output_path;
mod parse;
mod patterns;
mod provenance;
mod remedy;
mod remember;
mod report;
mod scan;
mod show;
mod small_file;
mod stats;
mod to;
mod tree;
mod verify;
mod writing;

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, CpuLevel, Fact, InspectInfo, TensorRole};
use serde_json::{Value, json};

use crate::args::{Cli, Command};
use crate::exit::Failure;
use crate::remote;
use crate::ui::{Printer, json::strings, shown};

/// Runs a command. `named` is the CPU level of conversions; by default the best available.
pub(crate) fn run(cli: &mut Cli, named: Option<CpuLevel>, printer: &Printer) -> Result<(), Failure> {
    remote::refuse_output(&mut cli.command)?;
    let mounts = remote::mount(&mut cli.command, printer)?;
    let done = provenance::recorded(cli, printer, || run_command(&cli.command, named, printer));
    mounts.print_details(printer);
    done
}

fn run_command(command: &Command, named: Option<CpuLevel>, printer: &Printer) -> Result<(), Failure> {
    let cpu = || named.unwrap_or_else(CpuLevel::detect);
    match command {
        Command::Parse(args) => parse::run(args, printer),
        Command::Inspect(args) => inspect::run(args, printer),
        Command::Tree(args) => tree::run(args, printer),
        Command::Report(args) => report::run(args, cpu(), printer),
        Command::Remember(args) => remember::run(args, cpu(), printer),
        Command::Convert(args) => convert::run(args, cpu(), printer),
        Command::Forget(args) => forget::run(args, cpu(), printer),
        Command::Verify(args) => verify::run(args, cpu(), printer),
        Command::Stats(args) => stats::run(args, cpu(), printer),
        Command::Diff(args) => diff::run(args, cpu(), printer),
        Command::Hash(args) => hash::run(args, cpu(), printer),
        Command::Show(args) => show::run(args, cpu(), printer),
        Command::Scan(args) => scan::run(args, printer),
        Command::Formats => formats::run(printer),
        Command::Demo => demo::run(cpu(), printer),
        Command::Completions(args) => manual::completions(args, printer),
        Command::Man(args) => manual::man(args, printer),
    }
}

/// The name of a role in text and JSON.
fn role_name(role: TensorRole) -> &'static str {
    match role {
        TensorRole::Quantized => "quantized",
        TensorRole::Scale => "scale",
        TensorRole::Passthrough => "passthrough",
        TensorRole::ZeroPoint => "zero_point",
        TensorRole::GroupIndex => "group_index",
        TensorRole::QuantMap => "quant_map",
        TensorRole::NestedScale => "nested_scale",
        TensorRole::QuantState => "quant_state",
        _ => "other",
    }
}

/// Prints the notes of a checkpoint.
fn notes(checkpoint: &Checkpoint, label: &str, printer: &Printer) -> Result<(), Failure> {
    for note in checkpoint.notes() {
        printer.text(format_args!("{label}{}", printable(&remedy::note(note), MAX_NOTE_CHARS)))?;
    }
    Ok(())
}

/// The names of unclaimed tensors, as JSON.
fn unclaimed_names(checkpoint: &Checkpoint) -> Value {
    checkpoint.unclaimed().iter().map(|tensor| tensor.name.as_str()).collect()
}

/// Maximum characters of a note.
const MAX_NOTE_CHARS: usize = 4096;

/// The fields that `parse` and `inspect` share, as JSON.
fn counts(path: &Path, checkpoint: &Checkpoint, info: &InspectInfo) -> Value {
    let facts = checkpoint.facts().map(|facts| {
        let field = |fact: &Fact| (fact.label.to_lowercase().replace(' ', "_"), Value::from(fact.value.as_str()));
        let fields = facts.entries.iter().map(field);
        std::iter::once(("title".to_owned(), facts.title.as_str().into())).chain(fields).collect::<Value>()
    });
    json!({
        "path": path.to_string_lossy(),
        "format": format!("{:?}", checkpoint.format()).to_lowercase(),
        "facts": facts,
        "notes": checkpoint.notes().iter().map(remedy::note).collect::<Vec<_>>(),
        "unclaimed": unclaimed_names(checkpoint),
        "directory": checkpoint.directory().map(Path::to_string_lossy),
        "files": checkpoint.file_count(),
        "scheme": info.scheme_name(),
        "tensor_count": info.tensor_count,
        "quantized": info.quantized,
        "scales": info.scales,
        "scale_dtypes": strings(&info.scale_dtypes),
        "zero_points": info.zeropoints,
        "group_indices": info.group_indices,
        "quant_maps": info.quant_maps,
        "nested_scales": info.nested_scales,
        "passthrough": info.passthrough,
        "passthrough_dtypes": strings(&info.passthrough_dtypes),
        "bytes": info.current_size,
    })
}

fn comma_list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// A count with its noun: `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
