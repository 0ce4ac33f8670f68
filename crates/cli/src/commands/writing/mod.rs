//! What commands that write a model share: the tensors of a plan, directories, and what to do where writing fails.

mod advice;
mod directory;
mod disk;
mod forecast;
pub(super) mod tensors;

pub(super) use advice::{advise, refuse_options_of_directories};
pub(super) use directory::DirectoryJob;

use anamnesis::CpuLevel;

use crate::ui::Printer;

/// Tells those who ask which CPU instructions are used, before the first of them is.
pub(super) fn tell_level(cpu: Option<CpuLevel>, printer: &Printer) {
    printer.detail(format_args!("CPU level {}", cpu.unwrap_or_default()));
}
