//! `forget --fit`: chooses the targets of weights by their errors, so that the model fits a size.

use anamnesis::{Checkpoint, ConvertTarget, CpuLevel, Fit, FittedWeight};
use serde_json::{Value, json};

use super::{conversion_options, request};
use crate::args::ForgetArgs;
use crate::commands::writing::prepare_output;
use crate::commands::{open, shown, to};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

/// The default family.
const DEFAULT_FAMILY: &str = "k-quants";

pub(super) fn run(args: &ForgetArgs, bytes: u64, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let text = args.to.as_deref().unwrap_or(DEFAULT_FAMILY);
    if !Fit::families().any(|family| family.eq_ignore_ascii_case(text)) {
        // Unknown targets are reported with suggestions.
        text.split(',').try_for_each(|name| to::target(name.trim()).map(|_| ()))?;
    }
    let targets = Fit::family(text)?;
    let Some(&first) = targets.first() else { return Ok(()) };
    prepare_output(&args.write, first, printer)?;
    let options = conversion_options(args, first, cpu)?;
    let checkpoint = open::checkpoint(&args.input, printer)?;
    let names: Vec<_> = targets.iter().map(|target| target.name()).collect();
    let input = shown(&args.input.path);
    printer.text(format_args!("Fitting {input} into {}: trying {}", size(bytes), names.join(", ")))?;
    let bar = printer.progress(0);
    let fit = checkpoint.fit(bytes, &targets, &options, &args.write.directory_options(), |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    let fit = fit.map_err(|error| request(args, first, options).advise(error, &checkpoint))?;
    print_choice(&fit, bytes, printer)?;
    write(args, fit, (bytes, &names), &checkpoint, printer)
}

fn write(
    args: &ForgetArgs,
    fit: Fit,
    (bytes, tried): (u64, &[&str]),
    checkpoint: &Checkpoint,
    printer: &Printer,
) -> Result<(), Failure> {
    let fit_document = document(&fit, bytes, tried);
    let mut request = request(args, fit.target, fit.options);
    request.fit = Some(fit_document);
    request.convert(checkpoint, printer)
}

/// Prints the choice for every weight.
fn print_choice(fit: &Fit, bytes: u64, printer: &Printer) -> Result<(), Failure> {
    let mut table =
        Table::new([Column::Flexible("WEIGHT"), Column::Left("TARGET"), Column::Right("SIZE"), Column::Right("SQNR")]);
    for FittedWeight { target, bytes, error, .. } in &fit.weights {
        let sqnr = format!("{:.2} dB", error.sqnr);
        let target = target.map_or("as given", ConvertTarget::name).to_owned();
        table.row([error.name.clone(), target, size(*bytes), sqnr]);
    }
    printer.text("")?;
    printer.table(&table)?;
    printer.text(format_args!("\nFits: {} of {}", size(fit.bytes), size(bytes)))
}

fn document(fit: &Fit, bytes: u64, tried: &[&str]) -> Value {
    let weight = |weight: &FittedWeight| {
        json!({
            "name": weight.error.name,
            "to": weight.target.map(ConvertTarget::name),
            "bytes": weight.bytes,
            "values": weight.error.values,
            "sqnr_db": Some(weight.error.sqnr).filter(|sqnr| sqnr.is_finite()),
        })
    };
    json!({
        "most_bytes": bytes,
        "bytes": fit.bytes,
        "tried": tried,
        "weights": fit.weights.iter().map(weight).collect::<Vec<_>>(),
    })
}
