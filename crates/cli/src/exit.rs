//! What the process tells its caller: exit codes, and the failures behind them.

use std::fmt;
use std::process::ExitCode;

use anamnesis::AnamnesisError;
use anamnesis::error::printable;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// The input or the output failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Stopped by Ctrl-C or a request to end, as shells count it.
    Interrupted = 130,
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
    /// The conversion was interrupted.
    Interrupted,
    /// Standard output could not be written.
    Stdout(std::io::Error),
    /// Decoded values are not those of the reference.
    Mismatch { matching: usize, values: usize },
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }

    /// The stable word for programs that read the failure.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused { error, .. } => match error {
                AnamnesisError::Parse { .. } => "parse",
                AnamnesisError::Unsupported { .. } | AnamnesisError::DisallowedGlobal { .. } => "unsupported",
                AnamnesisError::LimitExceeded { .. } => "limit",
                AnamnesisError::Cancelled => "cancelled",
                _ => "io",
            },
            Self::Interrupted => "cancelled",
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
            Self::Refused { error, advice: None } => error.fmt(f),
            Self::Refused { error, advice: Some(advice) } => write!(f, "{error}; {advice}"),
            Self::Interrupted => f.write_str("interrupted, nothing was written"),
            Self::Stdout(error) => write!(f, "standard output: {error}"),
            Self::Mismatch { matching, values } => {
                write!(f, "only {matching} of {values} values match the reference bit for bit")
            }
        }
    }
}

impl From<AnamnesisError> for Failure {
    fn from(error: AnamnesisError) -> Self {
        match error {
            AnamnesisError::Cancelled => Self::Interrupted,
            error => Self::Refused { error, advice: None },
        }
    }
}
