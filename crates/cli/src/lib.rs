//! The command line of anamnesis: `amn` and its long name `anamnesis` are both [`run`].
//!
//! `args` parses the command line, `commands` has a file per command, `ui` decides where text goes, `exit` defines
//! exit codes. [`call`] runs a command for a program in the same process.

mod args;
mod call;
mod commands;
mod cpu;
mod exit;
mod interrupt;
mod network_errors;
mod remote;
mod suggest;
mod ui;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anamnesis::error::printable;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::Cli;
use exit::Exit;
use ui::{Printer, json};

pub use call::{CallFailure, Flag, OnProgress, call, flags};

/// Runs the command line.
pub fn run() -> ExitCode {
    ExitCode::from(run_with(&std::env::args_os().collect::<Vec<_>>()))
}

/// Runs a command line, whose first argument is the name of the program, and returns the exit code.
pub fn run_with(arguments: &[OsString]) -> u8 {
    exit_of(arguments) as u8
}

fn exit_of(arguments: &[OsString]) -> Exit {
    let mut cli = match Cli::from_arguments(arguments) {
        Ok(cli) => cli,
        Err(error) => return help_or_usage(error, arguments),
    };
    let printer = Printer::new(&cli.output);
    match cpu::from_environment().and_then(|cpu| commands::run(&mut cli, cpu, &printer)).and_then(|()| printer.flush())
    {
        Ok(()) => Exit::Done,
        Err(failure) => {
            printer.failure(&failure);
            match failure.exit() {
                Exit::Interrupted => interrupt::exit(),
                exit => exit,
            }
        }
    }
}

/// Help and version are results; all other parser errors are usage errors.
fn help_or_usage(error: clap::Error, arguments: &[OsString]) -> Exit {
    // If printing fails, there is no one to report it to.
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    let named = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => Some(typed.clone()),
        _ => None,
    };
    let error = printable_error(error, arguments);
    if arguments.iter().any(|argument| argument == "--json") {
        eprintln!("{}", json::line(&json::failure("usage", &usage_reason(&error))));
        return Exit::Usage;
    }
    let _ = error.print();
    if let Some(typed) = named.filter(|typed| Path::new(typed).exists()) {
        let typed = printable(&typed, MAX_REASON_CHARS);
        eprintln!("\n  tip: to look into a file, name the command first: amn inspect {typed}");
    }
    Exit::Usage
}

/// The reason of a usage error in one line. It ends at the first empty line; tips and usage follow.
fn usage_reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let reason = lines.join(" ");
    printable(reason.strip_prefix("error: ").unwrap_or(&reason), MAX_REASON_CHARS)
}

/// The same error with escaped arguments, safe for a terminal.
fn printable_error(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let safe: Vec<OsString> =
        arguments.iter().map(|argument| printable(&argument.to_string_lossy(), MAX_REASON_CHARS).into()).collect();
    if safe == arguments {
        return error;
    }
    match Cli::from_arguments(&safe) {
        Err(error) if error.use_stderr() => error,
        // The escaped arguments parse: report the error without them.
        _ => Cli::command().error(error.kind(), "an argument contains control characters"),
    }
}

/// Maximum characters of a reason and of a quoted argument.
const MAX_REASON_CHARS: usize = 4096;
