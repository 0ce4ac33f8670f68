//! `scan`: lists the globals of the pickles in a file, directory or model, without running them.

mod sarif;

use std::path::{Path, PathBuf};

use anamnesis::error::printable;
use anamnesis::{Grade, ParseLimits, ScanReport, ScanVerdict, ScannedLanguage, ScannedPickle};
use serde_json::{Value, json};

use super::{counted, open, shown};
use crate::args::{STREAM, ScanArgs, ScanFormat};
use crate::exit::Failure;
use crate::ui::Printer;

/// Maximum characters of a line.
const MAX_LINE_CHARS: usize = 4096;

pub(super) fn run(args: &ScanArgs, printer: &Printer) -> Result<(), Failure> {
    let files = scanned(&args.path, &args.limit.all()).map_err(|error| open::advise(error, &args.path))?;
    if args.format == Some(ScanFormat::Sarif) {
        printer.text(format_args!("{:#}", sarif::log(&files)))?;
        return conclude(&files);
    }
    // For a single file, print the path as given.
    let is_one = matches!(&files[..], [file] if !args.path.is_dir() && !file.path.is_dir());
    for file in &files {
        let place = if is_one { &args.path } else { &file.path };
        let is_pickle = |scanned: &&ScannedPickle| scanned.language == ScannedLanguage::Pickle;
        let pickles = counted(file.report.pickles.iter().filter(is_pickle).count(), "pickle");
        printer.text(format_args!("{}: {}, {pickles}", shown(place), file.report.kind))?;
        print_report(&file.report, printer)?;
        if file.report.is_safe() {
            printer.text(conclusion(&file.report))?;
        } else if !is_one {
            printer.text(file.report.verdict())?;
        }
    }
    if files.is_empty() {
        printer.text(format_args!("{}: no file can contain a pickle", shown(&args.path)))?;
    }
    printer.document("scan", document(args, &files, worst(&files)))?;
    conclude(&files)
}

/// Fails if a file is not safe.
fn conclude(files: &[Scanned]) -> Result<(), Failure> {
    let verdict = worst(files);
    if files.iter().all(|file| file.report.is_safe()) {
        return Ok(());
    }
    let refused = files.iter().map(|file| file.report.refused().count()).sum();
    Err(Failure::Unsafe { verdict, refused })
}

/// A scanned file, or standard input.
struct Scanned {
    path: PathBuf,
    report: ScanReport,
}

fn scanned(path: &Path, limits: &ParseLimits) -> anamnesis::Result<Vec<Scanned>> {
    if path.as_os_str() == STREAM {
        let report = anamnesis::scan_positioned(open::spool_stdin()?, limits)?;
        return Ok(vec![Scanned { path: path.to_path_buf(), report }]);
    }
    let files = anamnesis::scan_all_with_limits(path, limits)?;
    Ok(files.into_iter().map(|file| Scanned { path: file.path, report: file.report }).collect())
}

/// The conclusion for a file with a safe verdict.
fn conclusion(report: &ScanReport) -> String {
    match &report.refusal {
        Some(why) => printable(&format!("safe, but cannot be converted: {why}"), MAX_LINE_CHARS),
        None => report.verdict().to_string(),
    }
}

/// The worst verdict.
fn worst(files: &[Scanned]) -> ScanVerdict {
    let verdicts = files.iter().map(|file| file.report.verdict());
    verdicts.max_by_key(|verdict| severity(*verdict)).unwrap_or(ScanVerdict::HoldsNoCode)
}

fn severity(verdict: ScanVerdict) -> u8 {
    match verdict {
        ScanVerdict::HoldsNoCode => 0,
        ScanVerdict::Safe => 1,
        ScanVerdict::RefersToCodeUnloaded => 3,
        ScanVerdict::RefersToCode => 4,
        _ => 2,
    }
}

fn print_report(report: &ScanReport, printer: &Printer) -> Result<(), Failure> {
    for pickle in &report.pickles {
        print_pickle(pickle, printer)?;
    }
    for line in report.problems.iter().chain(&report.notes) {
        printer.text(printable(line, MAX_LINE_CHARS))?;
    }
    Ok(())
}

/// Prints a pickle and its globals.
fn print_pickle(pickle: &ScannedPickle, printer: &Printer) -> Result<(), Failure> {
    let name = match pickle.name.as_str() {
        "" => format!("{} at byte {}", pickle.language, pickle.offset),
        name => name.to_owned(),
    };
    let unloaded = if pickle.loaded { "" } else { " (not loaded)" };
    printer.text(format_args!("  {}{unloaded}", printable(&name, MAX_LINE_CHARS)))?;
    for global in &pickle.globals {
        let mark = if global.allowed { "allowed" } else { "REFUSED" };
        let unloaded = if pickle.loaded { "" } else { ", not loaded" };
        let grade = if global.allowed { String::new() } else { format!(" ({}{unloaded})", global.grade) };
        let name = printable(&format!("{}.{}", global.module, global.name), MAX_LINE_CHARS);
        printer.text(format_args!("  {:>10}  {mark}  {name}{grade}", global.position))?;
    }
    match &pickle.problem {
        Some(problem) => printer.text(format_args!("              {}", printable(problem, MAX_LINE_CHARS))),
        None => Ok(()),
    }
}

fn document(args: &ScanArgs, files: &[Scanned], verdict: ScanVerdict) -> Value {
    let documents = files.iter().map(|file| {
        json!({
            "path": file.path.to_string_lossy(),
            "kind": file.report.kind,
            "verdict": verdict_name(file.report.verdict()),
            "refusal": file.report.refusal,
        })
    });
    let texts = |of: fn(&ScanReport) -> &[String]| {
        let lines =
            files.iter().flat_map(|file| of(&file.report).iter().map(|line| line_with_path(files, &file.path, line)));
        lines.collect::<Vec<_>>()
    };
    json!({
        "path": args.path.to_string_lossy(),
        "kind": match files {
            [file] => file.report.kind.as_str(),
            _ => "directory",
        },
        "verdict": verdict_name(verdict),
        "files": documents.collect::<Vec<_>>(),
        "pickles": files.iter().flat_map(|file| file.report.pickles.iter().map(|pickle| pickle_document(&file.path, pickle)))
            .collect::<Vec<_>>(),
        "problems": texts(|report| &report.problems),
        "notes": texts(|report| &report.notes),
    })
}

/// A line, with the path if there are several files.
fn line_with_path(files: &[Scanned], path: &Path, line: &str) -> String {
    if files.len() == 1 { line.to_owned() } else { format!("{}: {line}", path.display()) }
}

fn pickle_document(path: &Path, pickle: &ScannedPickle) -> Value {
    let globals = pickle.globals.iter().map(|global| {
        json!({
            "module": global.module,
            "name": global.name,
            "position": global.position,
            "uses": global.uses,
            "allowed": global.allowed,
            "grade": match global.grade {
                Grade::Data => "data",
                Grade::RunsCode => "runs_code",
                _ => "unknown",
            },
        })
    });
    json!({
        "file": path.to_string_lossy(),
        "language": match pickle.language {
            ScannedLanguage::KerasModel => "keras",
            ScannedLanguage::TensorFlowGraph => "tensorflow",
            _ => "pickle",
        },
        "name": pickle.name,
        "offset": pickle.offset,
        "bytes": pickle.bytes,
        "globals": globals.collect::<Vec<_>>(),
        "problem": pickle.problem,
        "loaded": pickle.loaded,
    })
}

fn verdict_name(verdict: ScanVerdict) -> &'static str {
    match verdict {
        ScanVerdict::HoldsNoCode => "holds_no_code",
        ScanVerdict::Safe => "safe",
        ScanVerdict::RefersToCode => "refers_to_code",
        ScanVerdict::RefersToCodeUnloaded => "refers_to_code_not_loaded",
        _ => "malformed",
    }
}
