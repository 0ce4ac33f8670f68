//! `forget --compare`: sizes and quantisation errors of several targets, without writing.

use anamnesis::{Comparison, CpuLevel, Measurement, QuantizationError};
use serde_json::{Value, json};

use super::{conversion_options, request, target};
use crate::args::ForgetArgs;
use crate::commands::writing::note_texts;
use crate::commands::{convert, counted, open, shown};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

pub(super) fn run(args: &ForgetArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let mut targets = args.compare.iter().map(|name| target(name.trim())).collect::<Result<Vec<_>, _>>()?;
    let mut seen = Vec::new();
    targets.retain(|target| {
        !seen.contains(target) && {
            seen.push(*target);
            true
        }
    });
    let Some(&first) = targets.first() else { return Ok(()) };
    let options = conversion_options(args, first, cpu)?;
    let checkpoint = open::checkpoint(&args.input, printer)?;
    printer.text(format_args!("Comparing {} for {}", counted(targets.len(), "target"), shown(&args.input.path)))?;
    let bar = printer.progress(0);
    let rows = checkpoint.compare(&targets, &options, &args.write.directory_options(), |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    let rows = rows.map_err(|error| request(args, first, options.clone()).advise(error, &checkpoint))?;
    let input_bytes = checkpoint.file_bytes();
    let reports = args.quantize.report;
    printer.text("")?;
    printer.table(&table(&rows, input_bytes))?;
    for row in &rows {
        if let Err(error) = &row.outcome {
            printer.text(format_args!("{}: not possible: {error}", row.target))?;
        }
    }
    if reports {
        for row in &rows {
            weights(row, printer)?;
        }
    }
    let document = json!({
        "path": args.input.path.to_string_lossy(),
        "input_bytes": input_bytes,
        "targets": rows.iter().map(|row| document(row, reports)).collect::<Vec<_>>(),
    });
    // If no target is possible, there is nothing to compare.
    if rows.iter().any(|row| row.outcome.is_ok()) {
        return printer.document("forget", document);
    }
    match rows.into_iter().find_map(|row| Some((row.target, row.outcome.err()?))) {
        Some((target, error)) => Err(request(args, target, options).advise(error, &checkpoint)),
        None => Ok(()),
    }
}

fn table(rows: &[Comparison], input_bytes: u64) -> Table {
    let mut table = Table::new([
        Column::Left("TARGET"),
        Column::Right("SIZE"),
        Column::Right("OF INPUT"),
        Column::Right("QUANTIZED"),
        Column::Right("LETHE"),
        Column::Right("SQNR"),
        Column::Right("COSINE"),
    ]);
    for row in rows {
        let name = row.target.name().to_owned();
        let nothing = || "-".to_owned();
        table.row(match &row.outcome {
            Err(_) => vec![name, "impossible".to_owned(), nothing(), nothing(), nothing(), nothing(), nothing()],
            Ok(Measurement { bytes, stats, overall, .. }) => {
                let error = |show: fn(&QuantizationError) -> String| overall.as_ref().map_or_else(nothing, show);
                vec![
                    name,
                    size(*bytes),
                    format!("{:.1} %", *bytes as f64 / input_bytes.max(1) as f64 * 100.0),
                    stats.quantized.to_string(),
                    error(|error| format!("{:.3e}", error.mean_absolute)),
                    error(|error| format!("{:.2} dB", error.sqnr)),
                    error(|error| format!("{:.6}", error.cosine)),
                ]
            }
        });
    }
    table
}

/// Prints the weights of one target, the worst first.
fn weights(row: &Comparison, printer: &Printer) -> Result<(), Failure> {
    let Ok(measured) = &row.outcome else { return Ok(()) };
    let mut errors: Vec<_> = measured.weights.iter().map(|weight| &weight.error).collect();
    errors.sort_by(|a, b| a.sqnr.total_cmp(&b.sqnr));
    printer.text(format_args!("\n{}:", row.target))?;
    printer.table(&convert::errors_table(errors))
}

fn document(row: &Comparison, reports: bool) -> Value {
    let mut document = json!({ "to": row.target.name(), "error": row.outcome.as_ref().err().map(ToString::to_string) });
    let Ok(Measurement { bytes, stats, kept, notes, weights, overall, replaced, .. }) = &row.outcome else {
        return document;
    };
    document["bytes"] = (*bytes).into();
    document["quantized"] = stats.quantized.into();
    document["passthrough"] = stats.passthrough.into();
    document["kept"] = kept.len().into();
    document["notes"] = note_texts(notes).into();
    document["replaced_values"] = (*replaced).into();
    let overall = overall.as_ref();
    document["values"] = overall.map(|error| error.values).into();
    document["lethe_distance"] = overall.map(|error| error.mean_absolute).into();
    document["mean_squared"] = overall.map(|error| error.mean_squared).into();
    // An infinite SQNR has no representation in JSON.
    document["sqnr_db"] = overall.map(|error| error.sqnr).filter(|sqnr| sqnr.is_finite()).into();
    document["cosine"] = overall.map(|error| error.cosine).into();
    if reports {
        document["errors"] = weights.iter().map(|weight| convert::error_document(&weight.error)).collect();
    }
    document
}
