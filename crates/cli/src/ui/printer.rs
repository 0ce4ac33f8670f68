//! Where text goes: results to standard output, progress and failures to standard error.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

use serde_json::Value;

use super::{ProgressBar, json};
use crate::args::OutputArgs;
use crate::exit::Failure;

/// Decides what is printed, and where.
///
/// A reader that stops reading has what it wants: once standard output is a broken pipe, results are dropped and the
/// command still finishes its work.
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    closed: Cell<bool>,
}

impl Printer {
    pub(crate) fn new(args: &OutputArgs) -> Self {
        Self { json: args.json, quiet: args.quiet, closed: Cell::new(false) }
    }

    /// A printer for steps whose results are told otherwise.
    pub(crate) fn silent() -> Self {
        Self::new(&OutputArgs { json: false, quiet: true })
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
        if self.json { self.write(&format!("{}\n", json::versioned(command, document))) } else { Ok(()) }
    }

    /// A bar of `total` bytes, drawn where standard error is a terminal.
    pub(crate) fn progress(&self, total: u64) -> ProgressBar {
        if self.quiet { ProgressBar::hidden() } else { ProgressBar::new(total) }
    }

    /// Columns of the terminal that results go to; `None` where it is none.
    pub(crate) fn width(&self) -> Option<usize> {
        let terminal = console::Term::stdout();
        if !terminal.is_term() {
            return None;
        }
        terminal.size_checked().map(|(_, columns)| usize::from(columns)).filter(|&columns| columns > 0)
    }

    /// Tells a failure, in every mode.
    pub(crate) fn failure(&self, failure: &Failure) {
        let text = if self.json { json::failure(failure).to_string() } else { format!("error: {}", failure.message()) };
        // Where standard error is gone too, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Hands everything printed to the system.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.settle(std::io::stdout().flush())
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
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
