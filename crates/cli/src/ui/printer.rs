//! Output streams: results go to standard output, progress and failures to standard error.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::time::Instant;

use serde_json::Value;

use super::shades::ellipsis;
use super::style::Style;
use super::{Page, ProgressBar, Table, Traffic, json, size, width};
use crate::args::OutputArgs;
use crate::call::Caller;
use crate::exit::Failure;

/// Decides what is printed, and where.
///
/// Once standard output is a broken pipe, results are dropped and the command still completes.
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: bool,
    out: Style,
    err: Style,
    closed: Cell<bool>,
    /// Whether standard output is the output of a conversion.
    is_stdout_reserved: Cell<bool>,
    /// The program that receives the document instead of standard output.
    caller: Option<Caller>,
    /// The bytes over the network, if there is one.
    traffic: RefCell<Option<Traffic>>,
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
            is_stdout_reserved: Cell::new(false),
            caller: None,
            traffic: RefCell::default(),
        }
    }

    /// Shows the bytes over the network with the progress.
    #[cfg(feature = "remote")]
    pub(crate) fn show_traffic(&self, traffic: Traffic) {
        self.traffic.replace(Some(traffic));
    }

    /// A printer for a program in the same process: it prints nothing and keeps the document.
    pub(crate) fn for_caller(caller: Caller) -> Self {
        let args = OutputArgs { json: true, quiet: true, ..OutputArgs::default() };
        Self { caller: Some(caller), ..Self::new(&args) }
    }

    /// The program, with the document.
    pub(crate) fn into_caller(self) -> Caller {
        self.caller.unwrap_or_default()
    }

    /// A printer without output, for the steps of another command.
    pub(crate) fn silent() -> Self {
        Self::new(&OutputArgs { quiet: true, ..OutputArgs::default() })
    }

    /// Reserves standard output for the output of a conversion: all text goes to standard error from now on.
    pub(crate) fn reserve_stdout(&self) {
        self.is_stdout_reserved.set(true);
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints text.
    pub(crate) fn text(&self, text: impl Display) -> Result<(), Failure> {
        if self.json || self.quiet { Ok(()) } else { self.write(&format!("{text}\n")) }
    }

    /// Prints the JSON document, also in quiet mode.
    pub(crate) fn document(&self, command: &str, document: Value) -> Result<(), Failure> {
        if let Some(caller) = &self.caller {
            caller.take(json::versioned(command, document));
            return Ok(());
        }
        if self.json { self.write(&format!("{}\n", json::line(&json::versioned(command, document)))) } else { Ok(()) }
    }

    /// A progress bar of `total` bytes, drawn only on a terminal.
    pub(crate) fn progress(&self, total: u64) -> ProgressBar {
        match &self.caller {
            Some(caller) => ProgressBar::called(total, caller.progress.clone()),
            None if self.quiet => ProgressBar::hidden(),
            None => ProgressBar::new(total, self.traffic.borrow().clone()),
        }
    }

    /// The terminal, or a page of unlimited width.
    pub(crate) fn page(&self) -> Page {
        Page { columns: width::columns().unwrap_or(usize::MAX), style: self.out }
    }

    /// Prints a table fitted to the page, and a note if cells were cut.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        let page = self.page();
        self.text(table.render(page))?;
        match table.is_cut(page) {
            true => self.text(format_args!("({} marks text cut to fit {} columns)", ellipsis(), page.columns)),
            false => Ok(()),
        }
    }

    /// Whether details are printed.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Prints a detail, in verbose mode only.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            for line in text.to_string().lines() {
                // If standard error is closed, there is no one to report to.
                let _ = writeln!(std::io::stderr(), "{}", self.err.detail(line));
            }
        }
    }

    /// Prints duration and throughput of a conversion.
    pub(crate) fn throughput(&self, bytes: u64, started: Instant) {
        let seconds = started.elapsed().as_secs_f64();
        let speed = if seconds > 0.0 { (bytes as f64 / seconds) as u64 } else { bytes };
        self.detail(format_args!("wrote {} in {seconds:.2} s, {}/s", size(bytes), size(speed)));
    }

    /// Prints a failure, in every mode.
    pub(crate) fn failure(&self, failure: &Failure) {
        let text = match self.json {
            true => json::line(&json::failure(failure.kind(), &failure.message())),
            false => format!("{} {}", self.err.error("error:"), failure.message()),
        };
        // If standard error is closed too, the exit code has to suffice.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Flushes standard output.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.ignore_broken_pipe(std::io::stdout().flush())
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        if self.is_stdout_reserved.get() {
            // If standard error is closed, there is no one to report to.
            let _ = std::io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        if self.closed.get() { Ok(()) } else { self.ignore_broken_pipe(std::io::stdout().write_all(text.as_bytes())) }
    }

    fn ignore_broken_pipe(&self, result: std::io::Result<()>) -> Result<(), Failure> {
        match result {
            Err(error) if is_broken_pipe(&error) => {
                self.closed.set(true);
                Ok(())
            }
            other => other.map_err(Failure::Stdout),
        }
    }
}

/// Whether there is no reader any more. Windows has an error of its own for a pipe whose reader was closed.
fn is_broken_pipe(error: &std::io::Error) -> bool {
    const PIPE_NOT_CONNECTED: i32 = 233;
    error.kind() == ErrorKind::BrokenPipe || cfg!(windows) && error.raw_os_error() == Some(PIPE_NOT_CONNECTED)
}
