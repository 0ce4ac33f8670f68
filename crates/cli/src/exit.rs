//! Exit codes, and the failures behind them.

use std::fmt;
use std::path::PathBuf;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Fault, Request, ScanVerdict};

use crate::args::STREAM;
use crate::{network_errors, suggest};

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// A file is at fault, of the input or of the output: missing, malformed, not supported, existing, too large.
    Failed = 1,
    /// The command line is at fault, alone or for this input: unknown or contradictory options, names that match
    /// nothing.
    Usage = 2,
    /// Stopped because the terminal was closed (SIGHUP).
    HungUp = 129,
    /// Stopped by Ctrl-C (SIGINT).
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

/// Maximum characters of a message.
const MAX_MESSAGE_CHARS: usize = 4096;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library refused; `advice` is what the user can do.
    Refused { error: AnamnesisError, advice: Option<String> },
    /// There is nothing to do, and why.
    Nothing(String),
    /// Options that are invalid for this input.
    Usage(String),
    /// The conversion was interrupted; `kept` is the directory with finished shards, or standard output.
    Interrupted { kept: Option<PathBuf> },
    /// The checkpoint has this many problems, which were printed.
    Unsound { problems: usize },
    /// This many files are not as a statement says, and were printed.
    Unstated { problems: usize },
    /// Pickles of a file refer to this many globals that are not accepted, or are malformed.
    Unsafe { verdict: ScanVerdict, refused: usize },
    /// Writing to standard output failed.
    Stdout(std::io::Error),
    /// Two models differ in this many tensors or names.
    Different { tensors: usize },
    /// Two models have no tensor in common.
    Disjoint,
    /// A condition holds for this many tensors.
    Found { condition: String, tensors: usize },
    /// Decoded values differ from the reference.
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

    /// A stable identifier for programs.
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
            Self::Unsound { .. } | Self::Unstated { .. } => "unsound",
            Self::Unsafe { .. } => "unsafe",
            Self::Stdout(_) => "io",
            Self::Different { .. } | Self::Disjoint => "different",
            Self::Found { .. } => "found",
            Self::Mismatch { .. } => "mismatch",
        }
    }

    /// The message, escaped for a terminal.
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
                f.write_str("interrupted, standard output is incomplete")
            }
            Self::Interrupted { kept: Some(output) } => {
                write!(f, "interrupted, finished files stay in {}; the same command resumes", output.display())
            }
            Self::Unsound { problems: 1 } => f.write_str("the checkpoint is not sound: 1 problem"),
            Self::Unsound { problems } => write!(f, "the checkpoint is not sound: {problems} problems"),
            Self::Unstated { problems: 1 } => f.write_str("1 file is not as the statement says"),
            Self::Unstated { problems } => write!(f, "{problems} files are not as the statement says"),
            Self::Unsafe { verdict, refused: 0 } => write!(f, "{verdict}: not everything could be read"),
            Self::Unsafe { verdict, refused } => {
                let names = if *refused == 1 { "name is" } else { "names are" };
                let harm = match verdict {
                    ScanVerdict::RefersToCodeUnloaded => "a conversion does not read them, and another program may",
                    _ => "loading this file with Python can run arbitrary code",
                };
                write!(f, "{verdict}: {refused} {names} refused; {harm}")
            }
            Self::Stdout(error) => write!(f, "standard output: {error}"),
            Self::Different { tensors: 1 } => f.write_str("the models differ in 1 tensor"),
            Self::Different { tensors } => write!(f, "the models differ in {tensors} tensors"),
            Self::Disjoint => f.write_str(
                "the models have no name in common; a GGUF file is compared with the directory of the model it was made from",
            ),
            Self::Found { condition, tensors: 1 } => write!(f, "{condition} holds for 1 tensor"),
            Self::Found { condition, tensors } => write!(f, "{condition} holds for {tensors} tensors"),
            Self::Mismatch { matching, values } => {
                write!(f, "only {matching} of {values} values match the reference bit for bit")
            }
        }
    }
}

/// Maximum number of known names in a message; `amn formats` lists all.
const MAX_LISTED_NAMES: usize = 12;
/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 3;

/// The text of an error, with a short list of names.
fn text(error: &AnamnesisError) -> String {
    match error {
        AnamnesisError::Request(Request::UnknownName { what, name, known }) if known.len() > MAX_LISTED_NAMES => {
            let meant = suggest::closest(name, known.iter().map(String::as_str), MAX_SUGGESTIONS);
            let meant = suggest::did_you_mean(&meant).map_or_else(String::new, |question| format!("; {question}"));
            format!("\"{name}\" is not a known {what}, amn formats lists all{meant}")
        }
        error => error.to_string(),
    }
}

/// Attributes an error to an option: the command line is at fault, not a file.
pub(crate) fn about(option: &str) -> impl Fn(AnamnesisError) -> Failure {
    move |error| match error {
        AnamnesisError::Parse { reason } => Failure::Usage(format!("{option}: {reason}")),
        error => Failure::Usage(format!("{option}: {}", text(&error))),
    }
}

/// Advice on weights with an undefined format.
const GPTQ_FORMAT_ADVICE: &str = "say it with --gptq-format, or name the model's configuration with --config";

impl From<AnamnesisError> for Failure {
    fn from(error: AnamnesisError) -> Self {
        match error {
            AnamnesisError::Cancelled => Self::Interrupted { kept: None },
            error @ AnamnesisError::Undecided { .. } => {
                Self::Refused { error, advice: Some(GPTQ_FORMAT_ADVICE.to_owned()) }
            }
            error if network_errors::is_cancelled(&error) => Self::Interrupted { kept: None },
            error => {
                let advice = network_errors::advice(&error);
                Self::Refused { error, advice }
            }
        }
    }
}
