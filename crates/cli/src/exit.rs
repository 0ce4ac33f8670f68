//! What the process tells its caller: exit codes, and the failures behind them.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Fault, Request, ScanVerdict};

use crate::args::STREAM;
use crate::close;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// A file is at fault, of the input or of the output: missing, malformed, not supported, in the way, too large.
    Failed = 1,
    /// What was typed is at fault, by itself or for this input: unknown or contradictory options, names that fit nothing.
    Usage = 2,
    /// Stopped because the terminal has gone (SIGHUP), as shells count it.
    HungUp = 129,
    /// Stopped by Ctrl-C (SIGINT).
    Interrupted = 130,
    /// Stopped by a request to end (SIGTERM).
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Longest message printed, in characters.
const MAX_MESSAGE_CHARS: usize = 4096;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library refused; the advice says what the user can do about it.
    Refused { error: AnamnesisError, advice: Option<String> },
    /// Nothing is left to do of what was asked for, and why.
    Nothing(String),
    /// Options that make no sense for this input.
    Usage(String),
    /// The conversion was interrupted; a directory keeps what was finished, standard output what it got.
    Interrupted { kept: Option<PathBuf> },
    /// The checkpoint has this many problems, which were told.
    Unsound { problems: usize },
    /// A file's pickles refer to this many names that are not accepted, or make no sense.
    Unsafe { verdict: ScanVerdict, refused: usize },
    /// Standard output could not be written.
    Stdout(std::io::Error),
    /// Decoded values are not those of the reference.
    Mismatch { matching: usize, values: usize },
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted { .. } => Exit::Interrupted,
            Self::Usage(_) | Self::Nothing(_) => Exit::Usage,
            Self::Refused { error, .. } if error.fault() == Fault::Request => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// The stable word for programs that read the failure.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused { error, .. } => match error {
                AnamnesisError::Parse { .. }
                | AnamnesisError::NotAModel { .. }
                | AnamnesisError::NotFinite { .. }
                | AnamnesisError::Overflow { .. }
                | AnamnesisError::Undecided { .. }
                | AnamnesisError::NoWeights { .. }
                | AnamnesisError::OtherPlan { .. } => "parse",
                AnamnesisError::Request(_) => "usage",
                AnamnesisError::Unsupported { .. }
                | AnamnesisError::UnsupportedModel { .. }
                | AnamnesisError::TensorNotRead { .. }
                | AnamnesisError::DisallowedGlobal { .. } => "unsupported",
                AnamnesisError::LimitExceeded { .. } => "limit",
                AnamnesisError::Cancelled => "cancelled",
                AnamnesisError::Internal { .. } => "internal",
                _ => "io",
            },
            Self::Nothing(_) => "nothing",
            Self::Usage(_) => "usage",
            Self::Interrupted { .. } => "cancelled",
            Self::Unsound { .. } => "unsound",
            Self::Unsafe { .. } => "unsafe",
            Self::Stdout(_) => "io",
            Self::Mismatch { .. } => "mismatch",
        }
    }

    /// The message, safe for a terminal.
    pub(crate) fn message(&self) -> String {
        printable(&self.to_string(), MAX_MESSAGE_CHARS)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error, advice: None } => f.write_str(&text(error)),
            Self::Refused { error, advice: Some(advice) } => write!(f, "{}; {advice}", text(error)),
            Self::Usage(why) | Self::Nothing(why) => f.write_str(why),
            Self::Interrupted { kept: None } => f.write_str("interrupted, nothing was written"),
            Self::Interrupted { kept: Some(output) } if output.as_os_str() == STREAM => {
                f.write_str("interrupted, standard output has a part of the output only")
            }
            Self::Interrupted { kept: Some(output) } => {
                write!(f, "interrupted, finished shards stay in {}; the same command resumes", output.display())
            }
            Self::Unsound { problems: 1 } => f.write_str("the checkpoint is not sound: 1 problem"),
            Self::Unsound { problems } => write!(f, "the checkpoint is not sound: {problems} problems"),
            Self::Unsafe { verdict, refused: 0 } => write!(f, "{verdict}: not everything could be read"),
            Self::Unsafe { verdict, refused } => {
                let names = if *refused == 1 { "name is" } else { "names are" };
                let harm = match verdict {
                    ScanVerdict::RefersToCodeUnloaded => "a conversion does not read them, and another program may",
                    _ => "loading this file with Python can run anything",
                };
                write!(f, "{verdict}: {refused} {names} refused; {harm}")
            }
            Self::Stdout(error) => write!(f, "standard output: {error}"),
            Self::Mismatch { matching, values } => {
                write!(f, "only {matching} of {values} values match the reference bit for bit")
            }
        }
    }
}

/// Names that are listed where none of them was given; more are what `amn formats` is for.
const NAMES_LISTED: usize = 12;
/// Names that are asked about where one may have been meant.
const NAMES_MEANT: usize = 3;

/// An error in the words of the command line: without a list that fills the screen.
fn text(error: &AnamnesisError) -> String {
    match error {
        AnamnesisError::Request(Request::UnknownName { what, name, known }) if known.len() > NAMES_LISTED => {
            let meant = close::closest(name, known.iter().map(String::as_str), NAMES_MEANT);
            let meant = close::did_you_mean(&meant).map_or_else(String::new, |question| format!("; {question}"));
            format!("\"{name}\" is no {what}, amn formats lists them{meant}")
        }
        error => error.to_string(),
    }
}

/// Puts the option in front that an error is about. What was typed is at fault, not a file.
pub(crate) fn about(option: &str) -> impl Fn(AnamnesisError) -> Failure {
    move |error| match error {
        AnamnesisError::Parse { reason } => Failure::Usage(format!("{option}: {reason}")),
        error => Failure::Usage(format!("{option}: {}", text(&error))),
    }
}

/// What to do about weights that nothing tells the format of.
const UNTOLD: &str = "say it with --gptq-format, or name the model's configuration with --config";

impl From<AnamnesisError> for Failure {
    fn from(error: AnamnesisError) -> Self {
        match error {
            AnamnesisError::Cancelled => Self::Interrupted { kept: None },
            error @ AnamnesisError::Undecided { .. } => Self::Refused { error, advice: Some(UNTOLD.to_owned()) },
            error => Self::Refused { error, advice: None },
        }
    }
}
