//! `remember`: decode a model, or show what decoding it would write. A file becomes a file, a checkpoint directory a
//! directory.

mod directory;
mod disk;
mod file;
mod forecast;
mod tensors;

use anamnesis::{Existing, Format, InspectOptions, RememberOptions, TargetDtype};

use super::{open, shown};
use crate::args::RememberArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

/// Where the input is of another format, the format of the output may be named in place of a type, and means the default.
const OUTPUT_FORMAT: &str = "safetensors";

pub(super) fn run(args: &RememberArgs, printer: &Printer) -> Result<(), Failure> {
    let is_format = args.to.eq_ignore_ascii_case(OUTPUT_FORMAT);
    let target: TargetDtype = if is_format { TargetDtype::BF16 } else { args.to.parse()? };
    let checkpoint = open::checkpoint(&args.input)?;
    if is_format && checkpoint.format() == Format::Safetensors {
        // Says which types there are.
        args.to.parse::<TargetDtype>()?;
    }
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    // The parts of a split GGUF model are one file that was cut: together they become one again, unless asked otherwise.
    let is_cut_file = checkpoint.format() == Format::Gguf && option_of_directories(args).is_none();
    if checkpoint.directory().is_some() && !is_cut_file {
        return directory::run(args, &checkpoint, &info, printer);
    }
    refuse_options_of_directories(args)?;
    file::run(args, &checkpoint, &info, printer)
}

/// The first option given that shapes the output of a checkpoint directory.
fn option_of_directories(args: &RememberArgs) -> Option<&'static str> {
    let given = [
        (args.shard_size.is_some(), "--shard-size"),
        (args.single_file, "--single-file"),
        (args.part.is_some(), "--part"),
    ];
    given.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
}

/// A file is written as one file by one run, whatever these options say.
fn refuse_options_of_directories(args: &RememberArgs) -> Result<(), Failure> {
    match option_of_directories(args) {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!(
            "{option} shapes the output of a checkpoint directory, and {} is a single file, which becomes a single file; \
             name its directory to convert the whole checkpoint",
            shown(&args.input.path)
        ))),
    }
}

/// How the conversion runs, as typed.
fn run_options(args: &RememberArgs) -> Result<RememberOptions, Failure> {
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let options = RememberOptions::new().with_existing(existing).with_cancel(interrupt::token()?);
    Ok(match args.threads {
        Some(threads) => options.with_threads(threads.into()),
        None => options,
    })
}
