//! `scan`: what the pickles of a file refer to, without running them.

use anamnesis::error::printable;
use anamnesis::{ScanReport, ScanVerdict, ScannedPickle};
use serde_json::{Value, json};

use super::{counted, shown};
use crate::args::ScanArgs;
use crate::exit::Failure;
use crate::ui::Printer;

/// Longest line of a report, in characters.
const MAX_LINE_CHARS: usize = 4096;

pub(super) fn run(args: &ScanArgs, printer: &Printer) -> Result<(), Failure> {
    let report = anamnesis::scan(&args.path)?;
    let verdict = report.verdict();
    let pickles = counted(report.pickles.len(), "pickle");
    printer.text(format_args!("{}: {}, {pickles}", shown(&args.path), report.kind))?;
    for pickle in &report.pickles {
        tell(pickle, printer)?;
    }
    for line in report.problems.iter().chain(&report.notes) {
        printer.text(printable(line, MAX_LINE_CHARS))?;
    }
    printer.document("scan", document(args, &report))?;
    if report.is_safe() {
        return printer.text(verdict);
    }
    let refused = report.refused().count();
    Err(Failure::Unsafe { verdict: verdict.to_string(), refused })
}

/// A pickle and what it refers to; what is not accepted stands out.
fn tell(pickle: &ScannedPickle, printer: &Printer) -> Result<(), Failure> {
    let name = if pickle.name.is_empty() { format!("pickle at byte {}", pickle.offset) } else { pickle.name.clone() };
    printer.text(format_args!("  {}", printable(&name, MAX_LINE_CHARS)))?;
    for global in &pickle.globals {
        let mark = if global.allowed { "allowed" } else { "REFUSED" };
        let name = printable(&format!("{}.{}", global.module, global.name), MAX_LINE_CHARS);
        printer.text(format_args!("  {:>10}  {mark}  {name}", global.position))?;
    }
    match &pickle.problem {
        Some(problem) => printer.text(format_args!("              {}", printable(problem, MAX_LINE_CHARS))),
        None => Ok(()),
    }
}

fn document(args: &ScanArgs, report: &ScanReport) -> Value {
    let pickles: Vec<_> = report
        .pickles
        .iter()
        .map(|pickle| {
            let globals: Vec<_> = pickle
                .globals
                .iter()
                .map(|global| {
                    json!({
                        "module": global.module,
                        "name": global.name,
                        "position": global.position,
                        "uses": global.uses,
                        "allowed": global.allowed,
                    })
                })
                .collect();
            json!({
                "name": pickle.name,
                "offset": pickle.offset,
                "bytes": pickle.bytes,
                "globals": globals,
                "problem": pickle.problem,
            })
        })
        .collect();
    json!({
        "path": args.path.to_string_lossy(),
        "kind": report.kind,
        "verdict": match report.verdict() {
            ScanVerdict::HoldsNoCode => "holds_no_code",
            ScanVerdict::Safe => "safe",
            ScanVerdict::RefersToCode => "refers_to_code",
            _ => "malformed",
        },
        "pickles": pickles,
        "problems": report.problems,
        "notes": report.notes,
    })
}
