//! `remember` for a single file.

use std::path::PathBuf;
use std::time::Instant;

use anamnesis::{Checkpoint, CpuLevel, Format, InspectInfo, RememberPlan, TargetDtype, format_bytes};
use serde_json::{Value, json};

use super::super::described::{Described, input_name, short_name};
use super::super::writing::{advise, tell_level, tensors};
use super::super::{notes, output_path, patterns, shown};
use super::run_options;
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
    let described = Described::of(checkpoint, info);
    let output = args.write.output.clone().unwrap_or_else(|| default_output(args, checkpoint, target));
    output_path::check(&output)?;
    match &described {
        Some(_) => {
            let names = [input_name(&args.input.path, checkpoint), short_name(&output)];
            printer.text(format_args!("Converting {}", names.join(" → ")))?;
        }
        None => printer.text(format_args!("Parsing...  {} tensors, {}", info.tensor_count, info.format))?,
    }
    notes(checkpoint, "  Note: ", printer)?;
    let plan = checkpoint.plan_selected(target, &args.select.selection()?);
    let plan = plan.map_err(|error| patterns::unfit(error, checkpoint))?;
    let job = Job { args, target, output };
    if args.write.dry_run {
        return job.show(&plan, printer);
    }
    match &described {
        Some(described) => printer.text(described.counted())?,
        None => printer.text(format_args!("Recalling... {} tensors", info.quantized))?,
    }
    job.write(&plan, cpu, printer)?;
    let written = shown(&job.output);
    match &described {
        Some(described) => {
            let copied = plan.tensors().count() - plan.decoded();
            printer.text(described.remembered(plan.decoded(), copied, &written))?;
        }
        None => printer.text(format_args!("Output: {written} ({})", format_bytes(info.dequantized_size)))?,
    }
    printer.document("remember", job.document(&plan))
}

/// A file of another format keeps its name, one of the same gets the name of the new type.
fn default_output(args: &RememberArgs, checkpoint: &Checkpoint, target: TargetDtype) -> PathBuf {
    let file = checkpoint.files().first().unwrap_or(&args.input.path);
    match checkpoint.format() {
        // What a store holds has no name of its own.
        Format::Safetensors if !args.input.path.to_string_lossy().starts_with("ollama:") => {
            output_path::beside(&args.input.path, target)
        }
        _ => output_path::same_name(&args.input.path, file),
    }
}

/// What was typed, and what it means.
struct Job<'a> {
    args: &'a RememberArgs,
    target: TargetDtype,
    output: PathBuf,
}

impl Job<'_> {
    fn write(&self, plan: &RememberPlan, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
        let options = run_options(self.args, cpu)?;
        tell_level(options.cpu, printer);
        let started = Instant::now();
        let bar = printer.progress(plan.total_bytes());
        let result = plan.write(&self.output, &options, |progress| bar.set(progress.bytes));
        drop(bar);
        result.map_err(|error| advise(error, &self.output, plan.total_bytes()))?;
        printer.throughput(plan.total_bytes(), started);
        Ok(())
    }

    /// Tells the plan and writes nothing.
    fn show(&self, plan: &RememberPlan, printer: &Printer) -> Result<(), Failure> {
        let planned: Vec<_> = plan.tensors().collect();
        let copied = planned.len() - plan.decoded();
        printer.text(format_args!("\n{}", tensors::table(&planned).render(printer.page())))?;
        printer.text(format_args!(
            "\nWould write {} ({}): {} decoded to {}, {copied} copied",
            shown(&self.output),
            format_bytes(plan.total_bytes()),
            plan.decoded(),
            self.target,
        ))?;
        let exists = self.output.exists();
        if exists && !self.args.write.force {
            printer.text("That file exists already: --force replaces it, -o chooses another name")?;
        }
        if printer.is_json() {
            let mut document = self.document(plan);
            document["output_exists"] = exists.into();
            document["tensors"] = planned.iter().map(tensors::document).collect();
            printer.document("remember", document)?;
        }
        Ok(())
    }

    fn document(&self, plan: &RememberPlan) -> Value {
        json!({
            "path": self.args.input.path.to_string_lossy(),
            "output": self.output.to_string_lossy(),
            "to": self.target.to_string(),
            "dry_run": self.args.write.dry_run,
            "decoded": plan.decoded(),
            "copied": plan.tensors().count() - plan.decoded(),
            "bytes": plan.total_bytes(),
        })
    }
}
