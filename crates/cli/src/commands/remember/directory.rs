//! `remember` for a checkpoint directory. Returns the JSON document.

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, InspectInfo};

use serde_json::Value;

use super::{nothing_decoded, summary};
use crate::args::{InputArgs, RememberArgs, WriteArgs};
use crate::commands::writing::{DirectoryJob, note_texts, outcome};
use crate::commands::{counted, patterns, shown};
use crate::exit::Failure;
use crate::ui::{Printer, size};

pub(super) fn run(
    args: &RememberArgs,
    (input, write): (&InputArgs, &WriteArgs),
    checkpoint: &Checkpoint,
    info: &InspectInfo,
    options: &ConvertOptions,
    printer: &Printer,
) -> Result<Value, Failure> {
    let target = info.output_dtype;
    let output = DirectoryJob::output(write, checkpoint, &target.to_string().to_ascii_lowercase())?;
    let tensors = counted(info.tensor_count, "tensor");
    printer.text(format_args!("Parsing...  {tensors}, {}", info.scheme_name()))?;
    let cut = write.directory_options();
    let plan = checkpoint.plan_convert_directory(ConvertTarget::Safetensors, options, &cut);
    let plan = plan.map_err(|error| patterns::advise(error, checkpoint))?;
    let to = target.to_string();
    let job = DirectoryJob { input, write, to, output };
    let note_lines: Vec<_> =
        nothing_decoded(args, checkpoint, plan.stats()).into_iter().chain(note_texts(plan.notes())).collect();
    let mut document = job.document(checkpoint, &plan);
    document["notes"] = note_lines.as_slice().into();
    let run = &options.run;
    if write.dry_run {
        return job.forecast(&plan, run, (&note_lines, &summary(plan.stats(), target)), document, printer);
    }
    printer.text(format_args!("Recalling... {}", counted(plan.stats().dequantized, "tensor")))?;
    let report = job.write(&plan, run, printer)?;
    outcome(checkpoint, &note_lines, report.overflowed, plan.total_bytes(), printer)?;
    let bytes = plan.tensors().map(|(_, tensor)| tensor.bytes).sum();
    printer.text(format_args!("Output: {} ({})", shown(&job.output), size(bytes)))?;
    for line in job.outcome(&plan, &report) {
        printer.text(format_args!("  {line}"))?;
    }
    document["overflowed_values"] = report.overflowed.into();
    document["written"] = report.written.into();
    document["kept"] = report.kept.into();
    Ok(document)
}
