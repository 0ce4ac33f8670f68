//! `remember`: decode a model, or show what decoding it would write. A file becomes a file, a checkpoint directory a
//! directory.

mod directory;
mod file;

use anamnesis::{ConvertOptions, CpuLevel, Existing, Format, InspectOptions, RememberOptions, TargetDtype};

use super::writing::refuse_options_of_directories;
use super::{open, shown, to};
use crate::args::RememberArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

/// Where the input is of another format, the format of the output may be named in place of a type, and means the default.
const OUTPUT_FORMAT: &str = "safetensors";

pub(super) fn run(args: &RememberArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let is_format = args.to.eq_ignore_ascii_case(OUTPUT_FORMAT);
    let target = if is_format { TargetDtype::BF16 } else { to::dtype(&args.to)? };
    let checkpoint = open::checkpoint(&args.input, printer)?;
    if is_format && checkpoint.format() == Format::Safetensors {
        // Says which types there are.
        to::dtype(&args.to)?;
    }
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    // Parts of one file that was cut become one again, unless asked otherwise.
    let is_cut_file = checkpoint.format().parts_are_one_file() && args.write.option_of_directories().is_none();
    if checkpoint.directory().is_some() && !is_cut_file {
        return directory::run(args, &checkpoint, &info, cpu, printer);
    }
    let why = format!(
        "{} is a single file, which becomes a single file; name its directory to convert the whole checkpoint",
        shown(&args.input.path)
    );
    refuse_options_of_directories(&args.write, &why)?;
    file::run(args, &checkpoint, &info, cpu, printer)
}

/// What is converted, as typed.
fn convert_options(args: &RememberArgs, target: TargetDtype) -> Result<ConvertOptions, Failure> {
    Ok(ConvertOptions::new().with_output_dtype(target.dtype()).with_selection(args.select.selection()?))
}

/// How the conversion runs, as typed.
fn run_options(args: &RememberArgs, cpu: CpuLevel) -> Result<RememberOptions, Failure> {
    let existing = if args.write.force { Existing::Replace } else { Existing::Refuse };
    let options = RememberOptions::new().with_cpu_level(cpu).with_existing(existing).with_cancel(interrupt::token()?);
    Ok(match args.write.threads {
        Some(threads) => options.with_threads(threads.into()),
        None => options,
    })
}
