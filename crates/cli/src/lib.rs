//! The command line of anamnesis: `amn` and its long name `anamnesis` are both [`run`].
//!
//! `args` is what was typed, `commands` has a file per verb, `ui` decides where text goes, `exit` what the process
//! tells its caller.

mod args;
mod commands;
mod exit;
mod interrupt;
mod ui;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::Cli;
use exit::Exit;
use ui::Printer;

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return help_or_usage(&error).into(),
    };
    let printer = Printer::new(&cli.output);
    match commands::run(&cli, &printer).and_then(|()| printer.flush()) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit().into()
        }
    }
}

/// Help and the version are results; everything else that stops the parser is wrong usage.
fn help_or_usage(error: &clap::Error) -> Exit {
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
