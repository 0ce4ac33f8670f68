//! `remember`: decode a model, or show what decoding it would write.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anamnesis::error::printable;
use anamnesis::{
    AnamnesisError, Existing, InspectOptions, PlannedOutput, RememberOptions, RememberPlan, TargetDtype, format_bytes,
};
use serde_json::{Value, json};

use super::{open, output_path};
use crate::args::RememberArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::{Column, Printer, Table};

/// Longest path printed, in characters.
const MAX_PATH_CHARS: usize = 4096;

pub(super) fn run(args: &RememberArgs, printer: &Printer) -> Result<(), Failure> {
    let target: TargetDtype = args.to.parse()?;
    let output = args.output.clone().unwrap_or_else(|| output_path::beside(&args.path, target));
    output_path::check(&output)?;
    let model = open(&args.path)?;
    let info = model.inspect_with_options(&InspectOptions::new().with_output_dtype(target));
    printer.text(format_args!("Parsing...  {} tensors, {}", info.tensor_count, info.format))?;
    let plan = model.checkpoint().plan(target)?;
    let job = Job { args, target, output };
    if args.dry_run {
        return job.show(&plan, printer);
    }
    printer.text(format_args!("Recalling... {} tensors", info.quantized))?;
    job.write(&plan, printer)?;
    printer.text(format_args!("Output: {} ({})", shown(&job.output), format_bytes(info.dequantized_size)))?;
    printer.document("remember", job.document(&plan))
}

/// What was typed, and what it means.
struct Job<'a> {
    args: &'a RememberArgs,
    target: TargetDtype,
    output: PathBuf,
}

impl Job<'_> {
    fn write(&self, plan: &RememberPlan<'_>, printer: &Printer) -> Result<(), Failure> {
        let existing = if self.args.force { Existing::Replace } else { Existing::Refuse };
        let mut options = RememberOptions::new().with_existing(existing).with_cancel(interrupt::token()?);
        if let Some(threads) = self.args.threads {
            options = options.with_threads(threads.into());
        }
        let bar = printer.progress(plan.total_bytes());
        let result = plan.write(&self.output, &options, |progress| bar.set(progress.bytes));
        drop(bar);
        result.map_err(|error| self.advise(error, plan.total_bytes()))
    }

    /// Adds what the user can do about an output that cannot be written.
    fn advise(&self, error: AnamnesisError, bytes: u64) -> Failure {
        let AnamnesisError::Io(cause) = &error else { return error.into() };
        let advice = match cause.kind() {
            ErrorKind::AlreadyExists => "--force replaces it, -o chooses another name".to_owned(),
            ErrorKind::InvalidInput | ErrorKind::IsADirectory => "choose another name with -o".to_owned(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                format!("cannot write {}, choose another place with -o", shown(&self.output))
            }
            ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => {
                format!("the output takes {}, nothing was left behind", format_bytes(bytes))
            }
            _ => return error.into(),
        };
        Failure::Refused { error, advice: Some(advice) }
    }

    /// Tells the plan and writes nothing.
    fn show(&self, plan: &RememberPlan<'_>, printer: &Printer) -> Result<(), Failure> {
        let tensors: Vec<_> = plan.tensors().collect();
        let copied = tensors.len() - plan.decoded();
        printer.text(format_args!("\n{}", table(&tensors).render(printer.width())))?;
        printer.text(format_args!(
            "\nWould write {} ({}): {} decoded to {}, {copied} copied",
            shown(&self.output),
            format_bytes(plan.total_bytes()),
            plan.decoded(),
            self.target,
        ))?;
        let exists = self.output.exists();
        if exists && !self.args.force {
            printer.text("That file exists already: --force replaces it, -o chooses another name")?;
        }
        if printer.is_json() {
            let mut document = self.document(plan);
            document["output_exists"] = exists.into();
            document["tensors"] = tensors.iter().map(tensor_document).collect();
            printer.document("remember", document)?;
        }
        Ok(())
    }

    fn document(&self, plan: &RememberPlan<'_>) -> Value {
        json!({
            "path": self.args.path.to_string_lossy(),
            "output": self.output.to_string_lossy(),
            "to": self.target.to_string(),
            "dry_run": self.args.dry_run,
            "decoded": plan.decoded(),
            "copied": plan.tensors().count() - plan.decoded(),
            "bytes": plan.total_bytes(),
        })
    }
}

fn table(tensors: &[PlannedOutput]) -> Table {
    let mut table = Table::new([
        Column::Flexible("NAME"),
        Column::Left("DTYPE"),
        Column::Left("SHAPE"),
        Column::Right("SIZE"),
        Column::Flexible("SCHEME"),
        Column::Flexible("SOURCES"),
    ]);
    for tensor in tensors {
        let sources: Vec<_> = tensor.sources.iter().map(|source| relative(source, &tensor.name)).collect();
        table.row([
            tensor.name.clone(),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            format_bytes(tensor.bytes),
            tensor.scheme.clone().unwrap_or_else(|| "copied".to_owned()),
            sources.join(" + "),
        ]);
    }
    table
}

/// The name of a source, without the module it shares with its output: `.weight` next to `layers.0.weight`.
fn relative<'a>(source: &'a str, output: &str) -> &'a str {
    let module = output.rfind('.').unwrap_or(0);
    match (source.get(..module), output.get(..module), source.get(module..)) {
        (Some(of_source), Some(of_output), Some(rest)) if of_source == of_output && rest.starts_with('.') => rest,
        _ => source,
    }
}

fn tensor_document(tensor: &PlannedOutput) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "bytes": tensor.bytes,
        "offset": tensor.offset,
        "scheme": tensor.scheme,
        "sources": tensor.sources,
    })
}

/// A path, safe for a terminal.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy(), MAX_PATH_CHARS)
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn sources_are_named_within_their_module() {
        assert_eq!(relative("layers.0.weight_scale", "layers.0.weight"), ".weight_scale");
        assert_eq!(relative("layers.0.weight", "layers.0.weight"), ".weight");
        assert_eq!(relative("layers.01.weight", "layers.0.weight"), "layers.01.weight");
        assert_eq!(relative("scale", "weight"), "scale");
        assert_eq!(relative("ä.b", "ab.c"), "ä.b");
    }
}
