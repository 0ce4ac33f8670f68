//! `convert` for a checkpoint directory.

use anamnesis::convert::output_name;
use anamnesis::{Checkpoint, ConvertReport, ConvertTarget};

use super::super::shown;
use super::super::writing::DirectoryJob;
use super::{Request, report};
use crate::exit::Failure;
use crate::ui::Printer;

impl Request<'_> {
    pub(super) fn convert_directory(&self, checkpoint: &Checkpoint, printer: &Printer) -> Result<(), Failure> {
        let suffix = match self.target {
            ConvertTarget::Safetensors => self.dtype().to_ascii_lowercase(),
            other => other.suffix().to_owned(),
        };
        let output = DirectoryJob::output(self.input, self.write, checkpoint, |name| output_name(name, &suffix))?;
        self.announce(checkpoint, &output, printer)?;
        let options = self.write.directory_options();
        let plan = checkpoint.plan_convert_directory(self.target, &self.options, &options);
        let plan = plan.map_err(|error| self.advise(error, checkpoint))?;
        let to = self.target.name().to_owned();
        let job = DirectoryJob { command: self.command, input: self.input, write: self.write, to, output };
        let mut document = job.document(&plan);
        document["notes"] = plan.notes().into();
        report::counts(plan.stats(), &mut document);
        let lines = report::lines(self.target, &self.dtype(), plan.stats());
        if self.write.dry_run {
            report::kept(plan.kept(), printer)?;
            self.notes(plan.notes(), printer)?;
            document["kept_weights"] = report::kept_document(plan.kept());
            let summary = if lines.is_empty() { "everything copied".to_owned() } else { lines.join(", ") };
            return job.forecast(&plan, &summary, document, printer);
        }
        let outcome = job.write(&plan, &self.options.run(), printer)?;
        for line in lines.into_iter().chain(job.outcome(&plan, &outcome)) {
            printer.text(format_args!("  {line}"))?;
        }
        self.notes(plan.notes(), printer)?;
        let report = ConvertReport::new(plan.stats(), outcome.errors, outcome.replaced);
        report::distance(&report, self.reports, printer)?;
        printer.text(format_args!("  Wrote {} tensors -> {}", plan.stats().tensors, shown(&job.output)))?;
        report::document(&report, self.reports, &mut document);
        document["written"] = outcome.written.into();
        document["kept"] = outcome.kept.into();
        printer.document(self.command, document)
    }
}
