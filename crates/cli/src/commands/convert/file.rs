//! `convert` into one file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anamnesis::convert::{derive_output_path, derive_output_path_for_dtype, output_name};
use anamnesis::{Checkpoint, ConvertPlan, Format, format_bytes};
use serde_json::{Value, json};

use super::super::writing::{advise, tell_level, tensors};
use super::super::{output_path, shown};
use super::{Request, report};
use crate::exit::Failure;
use crate::ui::Printer;

impl Request<'_> {
    pub(super) fn convert_file(&self, checkpoint: &Checkpoint, printer: &Printer) -> Result<(), Failure> {
        let output = self.write.output.clone().unwrap_or_else(|| self.default_output(checkpoint));
        output_path::check(&output)?;
        self.announce(checkpoint, &output, printer)?;
        let plan = checkpoint.plan_convert(self.target, &self.options);
        let plan = plan.map_err(|error| self.advise(error, checkpoint))?;
        if self.write.dry_run {
            return self.show(&plan, &output, printer);
        }
        tell_level(self.options.cpu, printer);
        let started = Instant::now();
        let bar = printer.progress(plan.total_bytes());
        let result = plan.write(&output, |progress| bar.set(progress.bytes));
        drop(bar);
        let report = result.map_err(|error| advise(error, &output, plan.total_bytes()))?;
        printer.throughput(plan.total_bytes(), started);
        for line in report::lines(self.target, &self.dtype(), plan.stats()) {
            printer.text(format_args!("  {line}"))?;
        }
        self.notes(plan.notes(), printer)?;
        report::distance(&report, self.reports, printer)?;
        printer.text(format_args!("  Wrote {} tensors -> {}", plan.stats().tensors, shown(&output)))?;
        let mut document = self.document(&plan, &output);
        report::document(&report, self.reports, &mut document);
        printer.document(self.command, document)
    }

    fn default_output(&self, checkpoint: &Checkpoint) -> PathBuf {
        let is_set = checkpoint.directory().filter(|_| checkpoint.format() == Format::Safetensors);
        if let Some(directory) = is_set {
            let named = |name: &OsStr| output_name(name, self.target.suffix());
            let mut path = output_path::named_beside(&self.input.path, directory, named);
            path.as_mut_os_string().push(format!(".{}", self.target.extension()));
            return path;
        }
        // Where a store or a split model led to another file, that is the one to be named after.
        let input = match (checkpoint.format(), checkpoint.files().first()) {
            (Format::Safetensors, _) | (_, None) => self.input.path.clone(),
            (_, Some(file)) => output_path::same_name(&self.input.path, file),
        };
        match self.options.output_dtype {
            Some(dtype) => derive_output_path_for_dtype(&input, self.target, dtype),
            None => derive_output_path(&input, self.target),
        }
    }

    /// Tells the plan and writes nothing.
    fn show(&self, plan: &ConvertPlan, output: &Path, printer: &Printer) -> Result<(), Failure> {
        let planned: Vec<_> = plan.tensors().collect();
        printer.text(format_args!("\n{}\n", tensors::table(&planned).render(printer.page())))?;
        report::kept(plan.kept(), printer)?;
        for line in report::lines(self.target, &self.dtype(), plan.stats()) {
            printer.text(format_args!("  {line}"))?;
        }
        self.notes(plan.notes(), printer)?;
        let bytes = format_bytes(plan.total_bytes());
        let count = plan.stats().tensors;
        printer.text(format_args!("  Would write {count} tensors -> {} ({bytes})", shown(output)))?;
        if output.exists() && !self.write.force {
            printer.text("That file exists already: --force replaces it, -o chooses another name")?;
        }
        if printer.is_json() {
            let mut document = self.document(plan, output);
            document["output_exists"] = output.exists().into();
            document["tensors"] = planned.iter().map(tensors::document).collect();
            document["kept_weights"] = report::kept_document(plan.kept());
            printer.document(self.command, document)?;
        }
        Ok(())
    }

    fn document(&self, plan: &ConvertPlan, output: &Path) -> Value {
        let mut document = json!({
            "path": self.input.path.to_string_lossy(),
            "output": output.to_string_lossy(),
            "to": self.target.name(),
            "out_dtype": self.dtype(),
            "dry_run": self.write.dry_run,
            "bytes": plan.total_bytes(),
            "output_tensors": plan.tensors().count(),
            "notes": plan.notes(),
        });
        report::counts(plan.stats(), &mut document);
        document
    }
}
