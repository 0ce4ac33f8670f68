//! Writing one file, or standard output.

use std::io::{BufWriter, IsTerminal};
use std::path::PathBuf;
use std::time::Instant;

use anamnesis::{Checkpoint, ConvertPlan, ConvertReport};
use serde_json::{Value, json};

use super::advice::{advise, advise_stream};
use super::needs::Needs;
use super::tensors::{self, Forecast};
use super::{plan_notes, print_machine, shared_fields};
use crate::args::{InputArgs, WriteArgs};
use crate::commands::{output_path, shown};
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

/// A file to be written.
pub(crate) struct FileJob<'a> {
    /// The command, for the JSON document.
    pub(crate) command: &'static str,
    pub(crate) input: &'a InputArgs,
    pub(crate) write: &'a WriteArgs,
    /// The requested target.
    pub(crate) to: String,
    pub(crate) output: PathBuf,
}

impl<'a> FileJob<'a> {
    /// The output is `-o`, or `default()`.
    pub(crate) fn new(
        command: &'static str,
        (input, write): (&'a InputArgs, &'a WriteArgs),
        to: String,
        default: impl FnOnce() -> Result<PathBuf, Failure>,
    ) -> Result<Self, Failure> {
        let output = write.output.clone().map_or_else(default, Ok)?;
        if output_path::is_stream(&output) {
            if std::io::stdout().is_terminal() && !write.dry_run {
                return Err(Failure::Usage("-o - writes to standard output, which is a terminal here".to_owned()));
            }
        } else {
            output_path::check(&output)?;
        }
        Ok(Self { command, input, write, to, output })
    }

    pub(crate) fn write(&self, plan: &ConvertPlan, printer: &Printer) -> Result<ConvertReport, Failure> {
        print_machine(plan.run(), printer);
        let started = Instant::now();
        let bar = printer.progress(plan.total_bytes());
        let result = match output_path::is_stream(&self.output) {
            true => interrupt::in_pipe(|| {
                plan.write_to(BufWriter::new(std::io::stdout()), |progress| bar.set(progress.bytes))
            }),
            false => plan.write(&self.output, |progress| {
                // Parts kept from an earlier run are not written.
                bar.set_total(progress.total_bytes);
                bar.set(progress.bytes);
            }),
        };
        drop(bar);
        let report = result.map_err(|error| match output_path::is_stream(&self.output) {
            true => advise_stream(error),
            false => advise(error, &self.output, plan.total_bytes(), plan.unfinished(&self.output)),
        })?;
        printer.throughput(plan.total_bytes(), started);
        Ok(report)
    }

    /// Prints the plan.
    pub(crate) fn forecast(
        &self,
        plan: &ConvertPlan,
        notes: &[String],
        summary: &[String],
        document: Value,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let planned: Vec<_> = plan.tensors().collect();
        let files: Vec<_> = plan.files(&self.output).collect();
        let is_split = files.len() > 1;
        Forecast::of_files(&planned, is_split).print(printer)?;
        printer.text("")?;
        plan_notes(notes, printer)?;
        for line in summary {
            printer.text(line)?;
        }
        let needs = Needs::of(&self.output, plan.total_bytes(), plan.run());
        needs.print(printer)?;
        let exists = !output_path::is_stream(&self.output) && files.iter().any(|(path, _)| anamnesis::exists(path));
        if exists && !self.write.force {
            let which = if is_split { "One of those files" } else { "That file" };
            printer.text(format_args!("{which} exists: --force replaces it, -o chooses another name"))?;
        }
        if plan.unfinished(&self.output).is_some() {
            printer.text("An interrupted run has finished some of those files: the same conversion resumes")?;
        }
        if printer.is_json() {
            let mut document = document;
            needs.add_to(&mut document);
            document["output_exists"] = exists.into();
            document["tensors"] = planned.iter().map(|tensor| tensors::document_in(tensor, is_split)).collect();
            printer.document(self.command, document)?;
        }
        Ok(())
    }

    pub(crate) fn document(&self, checkpoint: &Checkpoint, plan: &ConvertPlan) -> Value {
        let mut document = json!({
            "path": self.input.path.to_string_lossy(),
            "output": self.output.to_string_lossy(),
            "to": self.to,
            "dry_run": self.write.dry_run,
            "decoded": plan.stats().dequantized,
            "copied": plan.stats().passthrough,
            "bytes": plan.total_bytes(),
        });
        if plan.files(&self.output).len() > 1 {
            let file = |(path, bytes): (PathBuf, u64)| json!({ "path": path.to_string_lossy(), "bytes": bytes });
            document["files"] = plan.files(&self.output).map(file).collect();
        }
        shared_fields(checkpoint, plan.stats(), plan.notes(), &mut document);
        document
    }

    /// The output as text: its path, or its first and last file.
    pub(crate) fn written(&self, plan: &ConvertPlan) -> String {
        let names: Vec<_> = plan.files(&self.output).map(|(path, _)| path).collect();
        match &names[..] {
            [first, .., last] => format!("{} … {} ({} files)", shown(first), shown(last), names.len()),
            _ => shown(&self.output),
        }
    }
}
