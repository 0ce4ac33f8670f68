//! `verify`: checks that a checkpoint is complete and consistent.

use anamnesis::error::printable;
use serde_json::json;

use super::open;
use crate::args::{STREAM, VerifyArgs};
use crate::exit::Failure;
use crate::ui::{Printer, size};

/// Maximum characters of a problem.
const MAX_PROBLEM_CHARS: usize = 4096;

pub(super) fn run(args: &VerifyArgs, printer: &Printer) -> Result<(), Failure> {
    let limits = args.limit.all();
    let report = match args.path.as_os_str() == STREAM {
        true => open::spool_stdin().and_then(|file| anamnesis::verify_positioned(file, &limits)),
        false => anamnesis::verify_with_limits(&args.path, &limits),
    };
    let report = report.map_err(|error| open::advise(error, &args.path))?;
    // If the headers cannot be read, there is nothing to count.
    if report.files > 0 {
        let (files, tensors) = (super::counted(report.files, "file"), super::counted(report.tensors, "tensor"));
        printer.text(format_args!("{files}, {tensors}, {}", size(report.bytes)))?;
    }
    for (number, problem) in (1..).zip(&report.problems) {
        printer.text(format_args!("{number:>3}. {}", printable(problem, MAX_PROBLEM_CHARS)))?;
    }
    printer.document(
        "verify",
        json!({
            "path": args.path.to_string_lossy(),
            "files": report.files,
            "tensor_count": report.tensors,
            "bytes": report.bytes,
            "sound": report.is_sound(),
            "problems": report.problems,
        }),
    )?;
    if !report.is_sound() {
        return Err(Failure::Unsound { problems: report.problems.len() });
    }
    printer.text("sound")
}
