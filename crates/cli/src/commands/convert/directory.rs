//! `convert` for a checkpoint directory.

use anamnesis::{Checkpoint, ConvertReport};
use serde_json::Value;

use super::{Request, report};
use crate::commands::writing::{DirectoryJob, note_texts, outcome};
use crate::commands::{counted, shown};
use crate::exit::Failure;
use crate::ui::Printer;

impl Request<'_> {
    /// Converts a directory, and returns the JSON document.
    pub(super) fn convert_directory(&self, checkpoint: &Checkpoint, printer: &Printer) -> Result<Value, Failure> {
        let output = DirectoryJob::output(self.write, checkpoint, &self.suffix())?;
        self.announce(checkpoint, &output, printer)?;
        let cut = self.write.directory_options();
        let plan = checkpoint.plan_convert_directory(self.target, &self.options, &cut);
        let plan = plan.map_err(|error| self.advise(error, checkpoint))?;
        self.refuse_empty(plan.stats(), plan.kept())?;
        let notes = note_texts(plan.notes());
        let to = self.target.name().to_owned();
        let job = DirectoryJob { input: self.input, write: self.write, to, output };
        let mut document = job.document(checkpoint, &plan);
        report::counts(self.target, plan.stats(), plan.kept(), &mut document);
        if let Some(fit) = &self.fit {
            document["fit"] = fit.clone();
        }
        let dtype = plan.dtype().map_or_else(|| self.dtype(), |dtype| dtype.to_string());
        let lines = report::lines(self.target, &dtype, plan.stats(), None);
        let kept = report::kept(plan.kept(), printer);
        let run = &self.options.run;
        if self.write.dry_run {
            for line in kept {
                printer.text(format_args!("  {line}"))?;
            }
            let summary = if lines.is_empty() { "everything copied".to_owned() } else { lines.join(", ") };
            return job.forecast(&plan, run, (&notes, &summary), document, printer);
        }
        let done = job.write(&plan, run, printer)?;
        for line in lines.into_iter().chain(kept).chain(job.outcome(&plan, &done)) {
            printer.text(format_args!("  {line}"))?;
        }
        let overflowed = if self.target.is_quantized() { 0 } else { done.overflowed };
        outcome(checkpoint, &notes, overflowed, plan.total_bytes(), printer)?;
        let mut report = ConvertReport::new(plan.stats(), done.errors, done.replaced);
        report.overflowed = done.overflowed;
        if self.target.is_quantized() {
            report::distance(&report, self.reports, printer)?;
        }
        let tensors = counted(plan.stats().tensors, "tensor");
        let what = match self.write.part {
            Some(part) => format!("part {} of {}, which have {tensors}", part.number(), part.count()),
            None => tensors,
        };
        printer.text(format_args!("  Wrote {what} -> {}", shown(&job.output)))?;
        report::document(&report, self.reports, &mut document);
        document["written"] = done.written.into();
        document["kept"] = done.kept.into();
        Ok(document)
    }
}
