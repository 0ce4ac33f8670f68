//! `convert` into one file.

use std::path::PathBuf;

use anamnesis::Checkpoint;
use anamnesis::convert::{derive_output_path, derive_output_path_for_dtype};

use super::{Request, report};
use crate::commands::writing::{FileJob, note_texts, outcome};
use crate::commands::{counted, output_path};
use crate::exit::Failure;
use crate::ui::{Printer, size};

impl Request<'_> {
    pub(super) fn convert_file(&self, checkpoint: &Checkpoint, printer: &Printer) -> Result<(), Failure> {
        let to = self.target.name().to_owned();
        let default = || self.default_output(checkpoint);
        let job = FileJob::new(self.command, (self.input, self.write), to, default)?;
        self.announce(checkpoint, &job.output, printer)?;
        let plan = checkpoint.plan_convert(self.target, &self.options);
        let plan = plan.map_err(|error| self.advise(error, checkpoint))?;
        self.refuse_empty(plan.stats(), plan.kept())?;
        let is_resumed = plan.unfinished(&job.output).is_some();
        let projector = self.projector(checkpoint, &job.output, is_resumed)?;
        let notes = note_texts(plan.notes());
        let mut document = job.document(checkpoint, &plan);
        document["out_dtype"] = self.dtype().into();
        document["output_tensors"] = plan.tensors().count().into();
        report::counts(self.target, plan.stats(), plan.kept(), &mut document);
        if let Some(fit) = &self.fit {
            document["fit"] = fit.clone();
        }
        if let Some(projector) = &projector {
            document["projector"] = projector.document();
        }
        let mut lines = report::lines(self.target, &self.dtype(), plan.stats(), plan.architecture());
        lines.extend(report::kept(plan.kept(), printer));
        let tensors = counted(plan.stats().tensors, "tensor");
        let written = job.written(&plan);
        if self.write.dry_run {
            lines.push(format!("Would write {tensors} -> {written} ({})", size(plan.total_bytes())));
            lines.extend(projector.iter().map(|projector| projector.forecast()));
            let lines: Vec<_> = lines.iter().map(|line| format!("  {line}")).collect();
            return job.forecast(&plan, &notes, &lines, document, printer);
        }
        // It is the smaller file: if it cannot be written, nothing is.
        let with_projector = projector.as_ref().map(|projector| projector.write(printer)).transpose()?;
        let report = job.write(&plan, printer).inspect_err(|_| {
            if let Some(projector) = projector.as_ref().filter(|_| plan.unfinished(&job.output).is_none()) {
                projector.undo();
            }
        })?;
        for line in lines {
            printer.text(format_args!("  {line}"))?;
        }
        // For targets that quantise, the notes are printed with the error.
        let overflowed = if self.target.is_quantized() { 0 } else { report.overflowed };
        outcome(checkpoint, &notes, overflowed, plan.total_bytes(), printer)?;
        if self.target.is_quantized() {
            report::distance(&report, self.reports, printer)?;
        }
        printer.text(format_args!("  Wrote {tensors} -> {written}"))?;
        if !report.kept.is_empty() {
            printer.text(format_args!("  {} kept from an earlier run", counted(report.kept.len(), "file")))?;
        }
        if let Some(line) = with_projector {
            printer.text(format_args!("  {line}"))?;
        }
        report::document(&report, self.reports, &mut document);
        printer.document(self.command, document)
    }

    fn default_output(&self, checkpoint: &Checkpoint) -> Result<PathBuf, Failure> {
        let named = output_path::named_after(checkpoint)?;
        Ok(match self.options.output_dtype {
            Some(dtype) => derive_output_path_for_dtype(&named, self.target, dtype),
            None => derive_output_path(&named, self.target),
        })
    }
}
