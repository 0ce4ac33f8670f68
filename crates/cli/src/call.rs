//! Commands for programs in the same process: the document that `--json` prints, as a value.

use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::Arc;

use anamnesis::{AnamnesisError, CancelToken};
use clap::{ArgAction, CommandFactory};
use serde_json::Value;

use crate::args::Cli;
use crate::exit::Failure;
use crate::ui::Printer;
use crate::{commands, cpu, interrupt, usage_reason};

/// Receives the bytes that are done, and those there are to do.
pub type OnProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A program that has called a command in place of a person who typed it.
#[derive(Default)]
pub(crate) struct Caller {
    document: RefCell<Option<Value>>,
    pub(crate) progress: Option<OnProgress>,
}

impl Caller {
    pub(crate) fn take(&self, document: Value) {
        *self.document.borrow_mut() = Some(document);
    }
}

/// Why a call did not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallFailure {
    /// The stable word for its kind, as in the document of a failure.
    pub kind: &'static str,
    /// The message, with advice.
    pub message: String,
    /// The error of the library, where one is the reason.
    pub error: Option<AnamnesisError>,
    /// The document that the command printed all the same: what `verify` and `scan` found.
    pub document: Option<Value>,
}

/// Runs a command, `arguments` without the name of the program, and returns its document. Nothing is printed, and `cancel`
/// takes the place of signals.
///
/// # Errors
/// Whatever makes the command line exit with another code than 0.
pub fn call(
    arguments: &[OsString],
    cancel: &CancelToken,
    progress: Option<OnProgress>,
) -> Result<Value, Box<CallFailure>> {
    let typed: Vec<OsString> = ["amn".into(), "--json".into()].into_iter().chain(arguments.iter().cloned()).collect();
    let mut cli = Cli::from_arguments(&typed).map_err(|error| {
        let message = usage_reason(&error);
        Box::new(CallFailure { kind: "usage", message, error: None, document: None })
    })?;
    let printer = Printer::for_caller(Caller { document: RefCell::default(), progress });
    let done = interrupt::by(cancel, || cpu::from_environment().and_then(|cpu| commands::run(&mut cli, cpu, &printer)));
    let document = printer.into_caller().document.into_inner();
    match done {
        Ok(()) => Ok(document.unwrap_or_default()),
        Err(failure) => {
            let (kind, message) = (failure.kind(), failure.message());
            let error = match failure {
                Failure::Refused { error, .. } => Some(error),
                Failure::Stdout(error) => Some(error.into()),
                _ => None,
            };
            Err(Box::new(CallFailure { kind, message, error, document }))
        }
    }
}

/// An option of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flag {
    /// Its long name, without the dashes.
    pub name: String,
    /// Its help.
    pub help: String,
    /// Whether a value follows it.
    pub takes_value: bool,
    /// Whether it can be given more than once.
    pub repeats: bool,
}

/// The options of a command, in order; `None` where there is no such command. Those that say how results are printed are left
/// out.
#[must_use]
pub fn flags(command: &str) -> Option<Vec<Flag>> {
    let cli = Cli::command();
    let command = cli.find_subcommand(command)?;
    let flag = |argument: &clap::Arg| {
        Some(Flag {
            name: argument.get_long()?.to_owned(),
            help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
            takes_value: argument.get_action().takes_values(),
            repeats: matches!(argument.get_action(), ArgAction::Append),
        })
    };
    Some(command.get_arguments().filter_map(flag).filter(|flag| flag.name != "help").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(arguments: &[&str]) -> Result<Value, Box<CallFailure>> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        call(&arguments, &CancelToken::new(), None)
    }

    #[test]
    fn a_call_returns_the_document_of_its_command() {
        let document = called(&["formats"]).unwrap();
        assert_eq!((&document["command"], &document["schema"]), (&"formats".into(), &1.into()));
    }

    #[test]
    fn wrong_usage_and_missing_files_are_told_apart() {
        let usage = called(&["inspect", "--no-such-flag", "x"]).unwrap_err();
        assert!(usage.kind == "usage" && usage.message.contains("--no-such-flag") && usage.error.is_none());
        let missing = called(&["inspect", "no-such-file.safetensors"]).unwrap_err();
        assert!(missing.kind == "io" && matches!(missing.error, Some(AnamnesisError::Io(_))), "{missing:?}");
    }

    #[test]
    fn every_command_has_its_options() {
        let flags = flags("remember").unwrap();
        let to = flags.iter().find(|flag| flag.name == "to").unwrap();
        assert!(to.takes_value && !to.repeats && !to.help.is_empty());
        assert!(flags.iter().any(|flag| flag.name == "include" && flag.repeats));
        assert!(flags.iter().all(|flag| flag.name != "json"), "options of printing are global");
        assert!(super::flags("nothing").is_none());
    }
}
