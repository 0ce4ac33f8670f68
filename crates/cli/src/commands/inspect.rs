//! `inspect`: how a model is quantised, and how large it gets.

use anamnesis::{InspectOptions, TargetDtype};
use serde_json::json;

use super::{counts, open, shown};
use crate::args::InspectArgs;
use crate::exit::Failure;
use crate::ui::{Printer, json::texts};

pub(super) fn run(args: &InspectArgs, printer: &Printer) -> Result<(), Failure> {
    let target: TargetDtype = args.to.parse()?;
    let checkpoint = open::checkpoint(&args.input)?;
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    printer.text(&info)?;
    if let Some(directory) = checkpoint.directory() {
        printer.text(format_args!("Files:       {} ({})", checkpoint.file_count(), shown(directory)))?;
        labelled("Config:", &checkpoint.evidence(), printer)?;
        labelled("Odd:", &checkpoint.oddities(), printer)?;
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
        printer.document("inspect", document)?;
    }
    Ok(())
}

/// Lines under one label, in the columns of the summary.
fn labelled(label: &str, lines: &[String], printer: &Printer) -> Result<(), Failure> {
    for (index, line) in lines.iter().enumerate() {
        printer.text(format_args!("{:<13}{line}", if index == 0 { label } else { "" }))?;
    }
    Ok(())
}
