//! `inspect`: shows what a model is, how it is quantised, its decoded size, the memory to run it, and its metadata.

mod components;
mod metadata;
mod overview;

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, InspectInfo, InspectOptions, QuantScheme, SchemeSummary};
use serde_json::{Value, json};

use super::described::Described;
use super::{MAX_NOTE_CHARS, counted, counts, notes, open, patterns, shown, to};
use overview::First;

use crate::args::InspectArgs;
use crate::exit::Failure;
use crate::ui::{Printer, json::strings, size};

pub(super) fn run(args: &InspectArgs, printer: &Printer) -> Result<(), Failure> {
    let target = to::dtype(&args.to)?;
    if let Some(found) = super::components::of(&args.input)? {
        return components::run(args, &found, target, printer);
    }
    let checkpoint = patterns::select(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    let key = args.key.as_deref();
    let entries = args.metadata.then(|| metadata::entries(&checkpoint, key)).transpose()?;
    match &entries {
        Some(entries) => metadata::print(entries, key, printer)?,
        None => {
            summary(&checkpoint, &info, printer)?;
            if !printer.is_json() {
                First::of(&checkpoint, &info, args.context).print(printer)?;
            }
        }
    }
    if printer.is_json() {
        let mut document = document(&args.input.path, &checkpoint, &info, args.context);
        if let Some(entries) = entries {
            document["metadata"] = metadata::document(&entries);
        }
        printer.document("inspect", document)?;
    }
    Ok(())
}

/// A model as JSON.
fn document(path: &Path, checkpoint: &Checkpoint, info: &InspectInfo, context: Option<u64>) -> Value {
    let mut document = counts(path, checkpoint, info);
    document["schemes"] = info.codings.iter().map(scheme_document).collect();
    document["undecoded"] = info.undecoded.into();
    document["to"] = info.output_dtype.to_string().into();
    document["decoded_bytes"] = info.decoded_size().into();
    document["config"] = strings(&checkpoint.evidence());
    document["odd"] = strings(&checkpoint.oddities());
    document["problems"] = strings(&info.problems);
    First::of(checkpoint, info, context).add_to(&mut document);
    document
}

fn summary(checkpoint: &Checkpoint, info: &InspectInfo, printer: &Printer) -> Result<(), Failure> {
    match Described::of(checkpoint, info) {
        Some(described) => {
            printer.text(described.inspected(&checkpoint.tensors_as_stored()))?;
            labelled("Problems:", &first(&info.problems), printer)?;
        }
        None => {
            printer.text(info.with_sizes(size))?;
            if checkpoint.directory().is_some() || !is_self_explanatory(info.format) {
                labelled("Decided by:", &info.codings.iter().map(evidence_line).collect::<Vec<_>>(), printer)?;
            }
        }
    }
    if let Some(directory) = checkpoint.directory() {
        printer.text(format_args!("Files:       {} ({})", checkpoint.file_count(), shown(directory)))?;
        labelled("Config:", &checkpoint.evidence(), printer)?;
    }
    let unclaimed = checkpoint.unclaimed().len();
    if unclaimed > 0 {
        printer.text(format_args!("Unclaimed:   {}, treated as plain data", counted(unclaimed, "tensor")))?;
    }
    labelled("Odd:", &first(&checkpoint.oddities()), printer)?;
    notes(checkpoint, "Note:        ", printer)
}

/// Whether the name of a scheme describes a file completely: no bits, no groups.
fn is_self_explanatory(scheme: QuantScheme) -> bool {
    matches!(scheme, QuantScheme::FineGrainedFp8 | QuantScheme::PerChannelFp8 | QuantScheme::PerTensorFp8)
}

/// A scheme with its evidence.
fn evidence_line(summary: &SchemeSummary) -> String {
    let line = format!("{} × {}: {}", summary.weights, summary.description, summary.coding.evidence);
    printable(&line, MAX_LINE_CHARS)
}

/// A scheme as JSON.
fn scheme_document(summary: &SchemeSummary) -> Value {
    let coding = &summary.coding;
    json!({
        "scheme": summary.description,
        "weights": summary.weights,
        "family": summary.scheme.to_string(),
        "format": coding.format,
        "bits": coding.bits,
        "group_size": coding.group_size,
        "block_shape": coding.block_shape,
        "symmetric": coding.symmetric,
        "evidence": coding.evidence.to_string(),
    })
}

/// Maximum characters of a line about a scheme.
const MAX_LINE_CHARS: usize = 400;

/// The first lines, and the number of others.
fn first(lines: &[String]) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let shown = lines.iter().take(LINES_SHOWN).map(|line| printable(line, MAX_NOTE_CHARS));
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// Maximum number of problems and oddities to print.
const LINES_SHOWN: usize = 5;

/// Prints lines under a label, in the columns of the summary.
fn labelled(label: &str, lines: &[String], printer: &Printer) -> Result<(), Failure> {
    for (index, line) in lines.iter().enumerate() {
        printer.text(format_args!("{:<13}{line}", if index == 0 { label } else { "" }))?;
    }
    Ok(())
}
