//! What a user can do about an output that cannot be written.

use std::io::ErrorKind;
use std::path::Path;

use anamnesis::AnamnesisError;

use crate::args::{STREAM, WriteArgs};
use crate::commands::shown;
use crate::exit::Failure;
use crate::ui::size;

/// Adds what the user can do about an output file of `bytes` bytes that cannot be written.
pub(super) fn advise(error: AnamnesisError, output: &Path, bytes: u64) -> Failure {
    let AnamnesisError::Io(cause) = &error else { return advise_on_values(error) };
    let advice = match cause.kind() {
        ErrorKind::AlreadyExists => "--force replaces it, -o chooses another name".to_owned(),
        ErrorKind::InvalidInput | ErrorKind::IsADirectory => "choose another name with -o".to_owned(),
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("cannot write {}, choose another place with -o", shown(output))
        }
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => {
            format!("the output takes {}, nothing was left behind", size(bytes))
        }
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice) }
}

/// The same for standard output, from which nothing can be taken back.
pub(super) fn advise_stream(error: AnamnesisError) -> Failure {
    match error {
        AnamnesisError::Cancelled => Failure::Interrupted { kept: Some(STREAM.into()) },
        error => {
            Failure::Refused { error, advice: Some("what standard output has of the output is not all".to_owned()) }
        }
    }
}

/// Adds what the user can do about values or an output that stop a conversion.
pub(super) fn advise_on_values(error: AnamnesisError) -> Failure {
    let advice = match &error {
        AnamnesisError::NotFinite { .. } => {
            "keep this weight as it is (forget --exclude, convert --keep), or replace such values (--allow-nonfinite)"
        }
        AnamnesisError::Overflow { .. } => {
            "keep this weight as it is (forget --exclude, convert --keep), choose another type, or write it all the same \
             (--allow-nonfinite)"
        }
        AnamnesisError::OtherPlan { .. } => "use --force to start again",
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice.to_owned()) }
}

/// A file is written as one file by one run, whatever these options say.
pub(crate) fn refuse_options_of_directories(write: &WriteArgs, why: &str) -> Result<(), Failure> {
    match write.option_of_directories() {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!("{option} shapes the output of a checkpoint directory, and {why}"))),
    }
}
