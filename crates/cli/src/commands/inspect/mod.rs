//! `inspect`: how a model is quantised, how large it gets, and what it says about itself.

mod metadata;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, InspectInfo, InspectOptions, QuantScheme, SchemeSummary};
use serde_json::{Value, json};

use super::described::Described;
use super::{MAX_NOTE_CHARS, counted, counts, notes, open, patterns, shown, to};
use crate::args::InspectArgs;
use crate::exit::Failure;
use crate::ui::{Printer, json::texts, size};

pub(super) fn run(args: &InspectArgs, printer: &Printer) -> Result<(), Failure> {
    let target = to::dtype(&args.to)?;
    let checkpoint = patterns::chosen(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    let key = args.key.as_deref();
    let entries = args.metadata.then(|| metadata::entries(&checkpoint, key)).transpose()?;
    match &entries {
        Some(entries) => metadata::print(entries, key, printer)?,
        None => summary(&checkpoint, &info, printer)?,
    }
    if printer.is_json() {
        let mut document = counts(&args.input.path, &checkpoint, &info);
        document["schemes"] = info.codings.iter().map(scheme_document).collect();
        document["undecoded"] = info.undecoded.into();
        document["to"] = target.to_string().into();
        document["decoded_bytes"] = info.decoded_size().into();
        document["config"] = texts(&checkpoint.evidence());
        document["odd"] = texts(&checkpoint.oddities());
        document["problems"] = texts(&info.problems);
        if let Some(entries) = entries {
            document["metadata"] = metadata::document(&entries);
        }
        printer.document("inspect", document)?;
    }
    Ok(())
}

fn summary(checkpoint: &Checkpoint, info: &InspectInfo, printer: &Printer) -> Result<(), Failure> {
    match Described::of(checkpoint, info) {
        Some(described) => {
            printer.text(described.inspected(&checkpoint.tensors_as_stored()))?;
            labelled("Problems:", &first(&info.problems), printer)?;
        }
        None => {
            printer.text(info.with_sizes(size))?;
            if checkpoint.directory().is_some() || !says_it_all(info.format) {
                labelled("Decided by:", &info.codings.iter().map(decided).collect::<Vec<_>>(), printer)?;
            }
        }
    }
    if let Some(directory) = checkpoint.directory() {
        printer.text(format_args!("Files:       {} ({})", checkpoint.file_count(), shown(directory)))?;
        labelled("Config:", &checkpoint.evidence(), printer)?;
    }
    let unclaimed = checkpoint.unclaimed().len();
    if unclaimed > 0 {
        printer.text(format_args!("Unclaimed:   {}, taken as plain data", counted(unclaimed, "tensor")))?;
    }
    labelled("Odd:", &first(&checkpoint.oddities()), printer)?;
    notes(checkpoint, "Note:        ", printer)
}

/// Whether the name of a scheme leaves nothing to say of one file: no bits, no groups.
fn says_it_all(scheme: QuantScheme) -> bool {
    matches!(scheme, QuantScheme::FineGrainedFp8 | QuantScheme::PerChannelFp8 | QuantScheme::PerTensorFp8)
}

/// A scheme, and what decided that it is this one.
fn decided(summary: &SchemeSummary) -> String {
    let line = format!("{} × {}: {}", summary.weights, summary.description, summary.coding.evidence);
    printable(&line, MAX_LINE_CHARS)
}

/// A scheme for programs.
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

/// Longest line about a scheme, in characters.
const MAX_LINE_CHARS: usize = 400;

/// The first of many lines, and how many more there are.
fn first(lines: &[String]) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let shown = lines.iter().take(LINES_SHOWN).map(|line| printable(line, MAX_NOTE_CHARS));
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// Problems and oddities that are printed; the rest are counted.
const LINES_SHOWN: usize = 5;

/// Lines under one label, in the columns of the summary.
fn labelled(label: &str, lines: &[String], printer: &Printer) -> Result<(), Failure> {
    for (index, line) in lines.iter().enumerate() {
        printer.text(format_args!("{:<13}{line}", if index == 0 { label } else { "" }))?;
    }
    Ok(())
}
