//! `verify`: checks that a checkpoint is complete and consistent.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, CpuLevel, HashDifference, ModelHash, OpenOptions, RememberOptions};
use serde_json::json;

use super::provenance::{Check, StatedFile};
use super::{open, shown};
use crate::args::{STREAM, VerifyArgs};
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::{Printer, size};

/// Maximum characters of a problem.
const MAX_PROBLEM_CHARS: usize = 4096;

pub(super) fn run(args: &VerifyArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    if let Some(statement) = &args.provenance {
        return against_statement(statement, args.path.as_deref(), printer);
    }
    let path = args.path.as_deref().unwrap_or(Path::new(STREAM));
    let limits = args.limit.all();
    let expected = args.against.as_deref().map(read_hashes).transpose()?;
    let mut spooled = None;
    let report = match path.as_os_str() == STREAM {
        true => open::spool_stdin().and_then(|file| {
            spooled = Some(file.try_clone()?);
            anamnesis::verify_positioned(file, &limits)
        }),
        false => anamnesis::verify_with_limits(path, &limits),
    };
    let mut report = report.map_err(|error| open::advise(error, path))?;
    if let Some(expected) = expected.filter(|_| report.is_sound()) {
        let options = OpenOptions::new().with_limits(limits);
        let checkpoint = match spooled {
            Some(file) => Checkpoint::from_positioned(file, &options),
            None => Checkpoint::open_with(path, &options),
        };
        report.problems.extend(differences(&checkpoint?, &expected, cpu, printer)?);
    }
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
            "path": path.to_string_lossy(),
            "files": report.files,
            "tensor_count": report.tensors,
            "bytes": report.bytes,
            "sound": report.is_sound(),
            "problems": report.problems,
            "against": args.against.as_ref().map(|path| path.to_string_lossy()),
        }),
    )?;
    if !report.is_sound() {
        return Err(Failure::Unsound { problems: report.problems.len() });
    }
    printer.text("sound")
}

/// Compares files with a statement.
fn against_statement(statement: &Path, path: Option<&Path>, printer: &Printer) -> Result<(), Failure> {
    let entries = Check::read(statement)?.entries(path)?;
    let text = |name: &str| printable(name, MAX_PROBLEM_CHARS);
    for entry in &entries {
        let kind = if entry.is_output { "output" } else { "input" };
        printer.text(format_args!("{kind:<6}  {:<10}  {}", entry.word(), text(&entry.name)))?;
    }
    let problems: Vec<String> = entries.iter().filter_map(StatedFile::problem).collect();
    for (number, problem) in (1..).zip(&problems) {
        printer.text(format_args!("{number:>3}. {}", text(problem)))?;
    }
    let listed = |is_output: bool| -> Vec<_> {
        let of_kind = entries.iter().filter(|entry| entry.is_output == is_output);
        of_kind.map(|entry| json!({ "name": entry.name, "state": entry.word() })).collect()
    };
    printer.document(
        "verify",
        json!({
            "path": path.map(Path::to_string_lossy),
            "provenance": statement.to_string_lossy(),
            "outputs": listed(true),
            "inputs": listed(false),
            "sound": problems.is_empty(),
            "problems": problems,
        }),
    )?;
    match problems.len() {
        0 => printer.text("as stated"),
        problems => Err(Failure::Unstated { problems }),
    }
}

/// Maximum size of a file of hashes: room for a million tensors.
const MAX_HASH_FILE_BYTES: u64 = 1 << 28;

/// Reads a file of hashes.
fn read_hashes(path: &Path) -> Result<ModelHash, Failure> {
    let refuse = |error: AnamnesisError| open::advise(error, path);
    let named = |error: std::io::Error| {
        refuse(AnamnesisError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", shown(path)))))
    };
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_HASH_FILE_BYTES).read_to_string(&mut text)).map_err(named)?;
    ModelHash::parse(&text).map_err(|error| {
        let error = match error {
            AnamnesisError::Parse { reason } => AnamnesisError::Parse { reason: format!("{}: {reason}", shown(path)) },
            other => other,
        };
        Failure::Refused { error, advice: Some("amn hash prints such a file".to_owned()) }
    })
}

/// The differences between the expected hashes and those of a model.
fn differences(
    checkpoint: &Checkpoint,
    expected: &ModelHash,
    cpu: CpuLevel,
    printer: &Printer,
) -> Result<Vec<String>, Failure> {
    let run = RememberOptions::new().with_cancel(interrupt::token()?).with_cpu_level(cpu);
    let bar = printer.progress(0);
    let found = checkpoint.hash(expected.form, &run, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    Ok(expected.differences(&found?).iter().map(HashDifference::to_string).collect())
}
