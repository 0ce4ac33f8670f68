//! Shared code of commands that write a model: options, files and directories, the tensors of a plan, results,
//! advice.

mod advice;
mod directory;
mod file;
mod forecast;
mod needs;
mod outcome;
pub(super) mod tensors;

pub(super) use advice::refuse_directory_options;
pub(super) use directory::{DirectoryJob, sidecar_document, sidecar_lines};
pub(super) use file::FileJob;
pub(super) use outcome::{note_texts, outcome};
use outcome::{plan_notes, shared_fields};

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, Cores, CpuLevel, Existing, RememberOptions};

use super::output_path;
use crate::args::WriteArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

/// The requested conversion options.
pub(super) fn options(write: &WriteArgs, cpu: CpuLevel) -> Result<ConvertOptions, Failure> {
    let existing = if write.force { Existing::Replace } else { Existing::Refuse };
    let mut options = ConvertOptions::new().with_existing(existing).with_cancel(interrupt::token()?);
    options.threads = write.threads.count();
    options.cpu = Some(cpu);
    Ok(options)
}

/// Whether a checkpoint becomes a directory: if it is one, unless the target or the output path is a single file.
/// Split models are merged, unless requested otherwise.
pub(super) fn becomes_directory(checkpoint: &Checkpoint, write: &WriteArgs, target: ConvertTarget) -> bool {
    let is_cut_file = checkpoint.format().parts_are_one_file() && write.directory_option().is_none();
    if target == ConvertTarget::Hf {
        return true;
    }
    let is_named_as_file = write.output.as_deref().is_some_and(output_path::is_file);
    checkpoint.directory().is_some() && target.extension() == "safetensors" && !is_cut_file && !is_named_as_file
}

/// Refuses an output path that contradicts its target, and reserves standard output if it is the output.
pub(super) fn prepare_output(write: &WriteArgs, target: ConvertTarget, printer: &Printer) -> Result<(), Failure> {
    let Some(output) = write.output.as_deref() else { return Ok(()) };
    if output_path::is_stream(output) {
        printer.reserve_stdout();
        return Ok(());
    }
    output_path::check_extension(output, target)
}

/// Prints details: CPU level and number of threads.
fn print_machine(options: &RememberOptions, printer: &Printer) {
    printer.detail(format_args!("CPU level {}", options.cpu.unwrap_or_default()));
    match options.threads {
        Some(count) => printer.detail(super::counted(count, "worker thread")),
        None => {
            let cores = Cores::found();
            printer.detail(format_args!("{}: {cores}", super::counted(cores.threads(), "worker thread")));
        }
    }
}
