//! The command line of anamnesis: `amn` and its long name `anamnesis` are both [`run`].
//!
//! `args` is what was typed, `commands` has a file per verb, `ui` decides where text goes, `exit` what the process
//! tells its caller.

mod args;
mod close;
mod commands;
mod cpu;
mod exit;
mod interrupt;
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

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::typed(&arguments) {
        Ok(cli) => cli,
        Err(error) => return help_or_usage(error, &arguments).into(),
    };
    let printer = Printer::new(&cli.output);
    match cpu::named().and_then(|cpu| commands::run(&cli, cpu, &printer)).and_then(|()| printer.flush()) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            printer.failure(&failure);
            match failure.exit() {
                Exit::Interrupted => interrupt::exit(),
                exit => exit,
            }
            .into()
        }
    }
}

/// Help and the version are results; everything else that stops the parser is wrong usage.
fn help_or_usage(error: clap::Error, arguments: &[OsString]) -> Exit {
    // Nobody is left to tell where even these cannot be printed.
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
        // What is wrong ends at the first empty line; tips and usage follow.
        let text = error.render().to_string();
        let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let reason = lines.join(" ");
        let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
        eprintln!("{}", json::line(&json::failure("usage", &printable(reason, MAX_REASON_CHARS))));
        return Exit::Usage;
    }
    let _ = error.print();
    if let Some(typed) = named.filter(|typed| Path::new(typed).exists()) {
        let typed = printable(&typed, MAX_REASON_CHARS);
        eprintln!("\n  tip: to look into a file, name the command first: amn inspect {typed}");
    }
    Exit::Usage
}

/// The same error about arguments that are safe for a terminal: what steers one is typed anew as its escape.
fn printable_error(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let safe: Vec<OsString> =
        arguments.iter().map(|argument| printable(&argument.to_string_lossy(), MAX_REASON_CHARS).into()).collect();
    if safe == arguments {
        return error;
    }
    match Cli::typed(&safe) {
        Err(error) if error.use_stderr() => error,
        // Only the escaped form is fine: say what was wrong without what was typed.
        _ => Cli::command().error(error.kind(), "an argument has control characters that make no sense there"),
    }
}

/// Longest reason given to programs, and longest argument repeated, in characters.
const MAX_REASON_CHARS: usize = 4096;
