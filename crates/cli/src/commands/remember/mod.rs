//! `remember`: decode a model, or show what decoding it would write. A file becomes a file, a checkpoint directory a
//! directory.

mod directory;
mod disk;
mod file;
mod forecast;
mod tensors;

use anamnesis::{Existing, InspectOptions, RememberOptions, TargetDtype};

use super::{open, shown};
use crate::args::RememberArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

pub(super) fn run(args: &RememberArgs, printer: &Printer) -> Result<(), Failure> {
    let target: TargetDtype = args.to.parse()?;
    let checkpoint = open::checkpoint(&args.input)?;
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    if checkpoint.directory().is_some() {
        return directory::run(args, &checkpoint, &info, printer);
    }
    refuse_options_of_directories(args)?;
    file::run(args, &checkpoint, &info, printer)
}

/// A file is written as one file by one run, whatever these options say.
fn refuse_options_of_directories(args: &RememberArgs) -> Result<(), Failure> {
    let given = [
        (args.shard_size.is_some(), "--shard-size"),
        (args.single_file, "--single-file"),
        (args.part.is_some(), "--part"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => Err(Failure::Usage(format!(
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
