//! `inspect`: how a model is quantised, how large it gets, and what it says about itself.

mod metadata;

use anamnesis::{Checkpoint, InspectInfo, InspectOptions};
use serde_json::json;

use super::described::Described;
use super::{counts, notes, open, patterns, shown, to};
use crate::args::InspectArgs;
use crate::exit::Failure;
use crate::ui::{Printer, json::texts};

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
        let scheme = |(scheme, weights): &(String, usize)| json!({ "scheme": scheme, "weights": weights });
        document["schemes"] = info.schemes.iter().map(scheme).collect();
        document["to"] = target.to_string().into();
        document["decoded_bytes"] = info.dequantized_size.into();
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
            let more = info.problems.len().saturating_sub(PROBLEMS_SHOWN);
            let mut problems: Vec<_> = info.problems.iter().take(PROBLEMS_SHOWN).cloned().collect();
            problems.extend((more > 0).then(|| format!("and {more} more")));
            labelled("Problems:", &problems, printer)?;
        }
        None => printer.text(info)?,
    }
    if let Some(directory) = checkpoint.directory() {
        printer.text(format_args!("Files:       {} ({})", checkpoint.file_count(), shown(directory)))?;
        labelled("Config:", &checkpoint.evidence(), printer)?;
        labelled("Odd:", &checkpoint.oddities(), printer)?;
    }
    notes(checkpoint, "Note:        ", printer)
}

/// Problems that are printed; the rest are counted.
const PROBLEMS_SHOWN: usize = 5;

/// Lines under one label, in the columns of the summary.
fn labelled(label: &str, lines: &[String], printer: &Printer) -> Result<(), Failure> {
    for (index, line) in lines.iter().enumerate() {
        printer.text(format_args!("{:<13}{line}", if index == 0 { label } else { "" }))?;
    }
    Ok(())
}
