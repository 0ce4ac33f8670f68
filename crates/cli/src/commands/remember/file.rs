//! `remember` for a single file.

use std::path::PathBuf;

use anamnesis::convert::derive_output_path_for_dtype;
use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, Format, InspectInfo, TargetDtype};

use super::{nothing_decoded, summary};
use crate::args::RememberArgs;
use crate::commands::described::{Described, input_name, short_name};
use crate::commands::writing::{FileJob, note_texts, outcome};
use crate::commands::{counted, notes, output_path, patterns, shown};
use crate::exit::Failure;
use crate::ui::{Printer, size};

pub(super) fn run(
    args: &RememberArgs,
    checkpoint: &Checkpoint,
    info: &InspectInfo,
    options: &ConvertOptions,
    printer: &Printer,
) -> Result<(), Failure> {
    let target = info.output_dtype;
    let described = Described::of(checkpoint, info);
    let default = || default_output(checkpoint, target);
    let job = FileJob::new("remember", (&args.input, &args.write), target.to_string(), default)?;
    match &described {
        Some(_) => {
            let names = [input_name(&args.input.path, checkpoint), short_name(&job.output)];
            printer.text(format_args!("Converting {}", names.join(" → ")))?;
        }
        None => {
            let tensors = counted(info.tensor_count, "tensor");
            printer.text(format_args!("Parsing...  {tensors}, {}", info.scheme_name()))?;
        }
    }
    notes(checkpoint, "  Note: ", printer)?;
    let plan = checkpoint.plan_convert(ConvertTarget::Safetensors, options);
    let plan = plan.map_err(|error| patterns::advise(error, checkpoint))?;
    let note_lines: Vec<_> =
        nothing_decoded(args, checkpoint, plan.stats()).into_iter().chain(note_texts(plan.notes())).collect();
    let mut document = job.document(checkpoint, &plan);
    document["notes"] = note_lines.as_slice().into();
    if args.write.dry_run {
        let (output, bytes) = (shown(&job.output), size(plan.total_bytes()));
        let line = format!("Would write {output} ({bytes}): {}", summary(plan.stats(), target));
        return job.forecast(&plan, &note_lines, &[line], document, printer);
    }
    match &described {
        Some(described) => printer.text(described.counts())?,
        None => printer.text(format_args!("Recalling... {}", counted(plan.stats().dequantized, "tensor")))?,
    }
    let report = job.write(&plan, printer)?;
    outcome(checkpoint, &note_lines, report.overflowed, plan.total_bytes(), printer)?;
    let written = shown(&job.output);
    match &described {
        Some(described) => {
            printer.text(described.result(plan.stats().dequantized, plan.stats().passthrough, &written))?;
        }
        None => {
            let bytes = plan.tensors().map(|tensor| tensor.bytes).sum();
            printer.text(format_args!("Output: {written} ({})", size(bytes)))?;
        }
    }
    document["overflowed_values"] = report.overflowed.into();
    printer.document("remember", document)
}

/// The default output: an input of another format keeps its stem, one of the same gets the type as a suffix.
pub(super) fn default_output(checkpoint: &Checkpoint, target: TargetDtype) -> Result<PathBuf, Failure> {
    let named = output_path::named_after(checkpoint)?;
    Ok(match checkpoint.format() {
        // A file of a store has no name of its own.
        Format::Safetensors if !checkpoint.origin().is_store() => {
            derive_output_path_for_dtype(&named, ConvertTarget::Safetensors, target.dtype())
        }
        _ => named,
    })
}
