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

use std::path::Path;
use std::process::ExitCode;

use anamnesis::error::printable;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::Cli;
use exit::Exit;
use ui::{Printer, json};

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::typed(&arguments) {
        Ok(cli) => cli,
        Err(error) => return help_or_usage(&error, arguments.iter().any(|argument| argument == "--json")).into(),
    };
    let printer = Printer::new(&cli.output);
    match cpu::named().and_then(|cpu| commands::run(&cli, cpu, &printer)).and_then(|()| printer.flush()) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit().into()
        }
    }
}

/// Help and the version are results; everything else that stops the parser is wrong usage.
fn help_or_usage(error: &clap::Error, is_json: bool) -> Exit {
    if is_json && error.use_stderr() {
        let text = error.render().to_string();
        let reason = text.lines().next().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        eprintln!("{}", json::line(&json::failure("usage", &printable(reason, MAX_REASON_CHARS))));
        return Exit::Usage;
    }
    // Nobody is left to tell where even this cannot be printed.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && Path::new(typed).exists()
    {
        eprintln!("\n  tip: to look into a file, name the command first: amn inspect {typed}");
    }
    Exit::Usage
}

/// Longest reason given to programs, in characters.
const MAX_REASON_CHARS: usize = 4096;
