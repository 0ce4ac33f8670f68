//! Where text goes: results to standard output, progress and failures to standard error.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::time::Instant;

use serde_json::Value;

use super::style::Style;
use super::{Page, ProgressBar, Table, json, size, width};
use crate::args::OutputArgs;
use crate::exit::Failure;

/// Decides what is printed, and where.
///
/// A reader that stops reading has what it wants: once standard output is a broken pipe, results are dropped and the
/// command still finishes its work.
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: bool,
    out: Style,
    err: Style,
    closed: Cell<bool>,
    /// Whether standard output belongs to the output of a conversion.
    gives_way: Cell<bool>,
}

impl Printer {
    pub(crate) fn new(args: &OutputArgs) -> Self {
        Self {
            json: args.json,
            quiet: args.quiet,
            verbose: args.verbose,
            out: Style::of(args.color, &std::io::stdout()),
            err: Style::of(args.color, &std::io::stderr()),
            closed: Cell::new(false),
            gives_way: Cell::new(false),
        }
    }

    /// A printer for steps whose results are told otherwise.
    pub(crate) fn silent() -> Self {
        Self::new(&OutputArgs { quiet: true, ..OutputArgs::default() })
    }

    /// Leaves standard output to the output of a conversion: everything is told on standard error from now on.
    pub(crate) fn give_way(&self) {
        self.gives_way.set(true);
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Lines for people.
    pub(crate) fn text(&self, text: impl Display) -> Result<(), Failure> {
        if self.json || self.quiet { Ok(()) } else { self.write(&format!("{text}\n")) }
    }

    /// The one document for programs; asked for by name, so it is printed even where people want quiet.
    pub(crate) fn document(&self, command: &str, document: Value) -> Result<(), Failure> {
        if self.json { self.write(&format!("{}\n", json::line(&json::versioned(command, document)))) } else { Ok(()) }
    }

    /// A bar of `total` bytes, drawn where standard error is a terminal.
    pub(crate) fn progress(&self, total: u64) -> ProgressBar {
        if self.quiet { ProgressBar::hidden() } else { ProgressBar::new(total) }
    }

    /// What results are drawn on: the terminal, or a page of any width.
    pub(crate) fn page(&self) -> Page {
        Page { columns: width::columns().unwrap_or(usize::MAX), style: self.out }
    }

    /// A table that fits the page, and a word about what had to be cut for that.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        let page = self.page();
        self.text(table.render(page))?;
        match table.is_cut(page) {
            true => self.text(format_args!("(… stands for what does not fit {} columns)", page.columns)),
            false => Ok(()),
        }
    }

    /// Whether what was decided, and why, is told too.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// What was decided, and why: beside the result, for those who ask.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            for line in text.to_string().lines() {
                // Where standard error is gone nobody is left to tell.
                let _ = writeln!(std::io::stderr(), "{}", self.err.detail(line));
            }
        }
    }

    /// How long a conversion took, and how fast that is.
    pub(crate) fn throughput(&self, bytes: u64, started: Instant) {
        let seconds = started.elapsed().as_secs_f64();
        let speed = if seconds > 0.0 { (bytes as f64 / seconds) as u64 } else { bytes };
        self.detail(format_args!("wrote {} in {seconds:.2} s, {}/s", size(bytes), size(speed)));
    }

    /// Tells a failure, in every mode.
    pub(crate) fn failure(&self, failure: &Failure) {
        let text = match self.json {
            true => json::line(&json::failure(failure.kind(), &failure.message())),
            false => format!("{} {}", self.err.error("error:"), failure.message()),
        };
        // Where standard error is gone too, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Hands everything printed to the system.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.settle(std::io::stdout().flush())
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        if self.gives_way.get() {
            // Where standard error is gone nobody is left to tell.
            let _ = std::io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        if self.closed.get() { Ok(()) } else { self.settle(std::io::stdout().write_all(text.as_bytes())) }
    }

    fn settle(&self, result: std::io::Result<()>) -> Result<(), Failure> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed.set(true);
                Ok(())
            }
            other => other.map_err(Failure::Stdout),
        }
    }
}
