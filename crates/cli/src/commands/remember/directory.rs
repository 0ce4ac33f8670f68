//! `remember` for a checkpoint directory.

use anamnesis::convert::output_name;
use anamnesis::{Checkpoint, ConvertTarget, CpuLevel, InspectInfo, format_bytes};

use super::super::writing::DirectoryJob;
use super::super::{patterns, shown};
use super::{convert_options, run_options};
use crate::args::RememberArgs;
use crate::exit::Failure;
use crate::ui::Printer;

pub(super) fn run(
    args: &RememberArgs,
    checkpoint: &Checkpoint,
    info: &InspectInfo,
    cpu: CpuLevel,
    printer: &Printer,
) -> Result<(), Failure> {
    let target = info.output_dtype;
    let suffix = target.to_string().to_ascii_lowercase();
    let output = DirectoryJob::output(&args.input, &args.write, checkpoint, |name| output_name(name, &suffix))?;
    printer.text(format_args!("Parsing...  {} tensors, {}", info.tensor_count, info.format))?;
    let (convert, options) = (convert_options(args, target)?, args.write.directory_options());
    let plan = checkpoint.plan_convert_directory(ConvertTarget::Safetensors, &convert, &options);
    let plan = plan.map_err(|error| patterns::unfit(error, checkpoint))?;
    let to = target.to_string();
    let job = DirectoryJob { command: "remember", input: &args.input, write: &args.write, to, output };
    if args.write.dry_run {
        let summary = format!("{} decoded to {target}, {} copied", plan.decoded(), plan.stats().passthrough);
        return job.forecast(&plan, &summary, job.document(&plan), printer);
    }
    printer.text(format_args!("Recalling... {} tensors", info.quantized))?;
    let report = job.write(&plan, &run_options(args, cpu)?, printer)?;
    printer.text(format_args!("Output: {} ({})", shown(&job.output), format_bytes(info.dequantized_size)))?;
    for line in job.outcome(&plan, &report) {
        printer.text(format_args!("  {line}"))?;
    }
    let mut document = job.document(&plan);
    document["written"] = report.written.into();
    document["kept"] = report.kept.into();
    printer.document("remember", document)
}
