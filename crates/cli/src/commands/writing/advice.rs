//! Advice on outputs that cannot be written.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anamnesis::AnamnesisError;

use crate::args::{STREAM, WriteArgs};
use crate::commands::shown;
use crate::exit::Failure;
use crate::ui::size;

/// Adds advice to the error of writing an output file of `bytes` bytes, whose finished parts are in the folder `kept`.
pub(super) fn advise(error: AnamnesisError, output: &Path, bytes: u64, kept: Option<PathBuf>) -> Failure {
    let cause = match &error {
        AnamnesisError::Io(cause) => cause,
        AnamnesisError::Cancelled => return Failure::Interrupted { kept },
        _ => return advise_on_values(error),
    };
    let advice = match cause.kind() {
        ErrorKind::AlreadyExists => "--force replaces it, -o chooses another name".to_owned(),
        ErrorKind::InvalidInput | ErrorKind::IsADirectory => "choose another name with -o".to_owned(),
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("cannot write {}, choose another place with -o", shown(output))
        }
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => match kept {
            None => format!("the output takes {}, nothing was left behind", size(bytes)),
            Some(folder) => {
                format!("finished parts stay in {}; free disk space, and the same command resumes", shown(&folder))
            }
        },
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice) }
}

/// The same for standard output, where written bytes cannot be undone.
pub(super) fn advise_stream(error: AnamnesisError) -> Failure {
    match error {
        AnamnesisError::Cancelled => Failure::Interrupted { kept: Some(STREAM.into()) },
        error => Failure::Refused { error, advice: Some("standard output is incomplete".to_owned()) },
    }
}

/// Adds advice to errors that stop a running conversion.
pub(super) fn advise_on_values(error: AnamnesisError) -> Failure {
    let advice = match &error {
        AnamnesisError::NotFinite { .. } => {
            "keep this weight unquantised (forget --exclude, convert --keep), or replace such values (--allow-nonfinite)"
        }
        AnamnesisError::Overflow { .. } => {
            "keep this weight unquantised (forget --exclude, convert --keep), choose another type, or write it anyway \
            (--allow-nonfinite)"
        }
        AnamnesisError::OtherPlan { .. } => "--force starts again",
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice.to_owned()) }
}

/// Refuses options for directories when a single file is written.
pub(crate) fn refuse_directory_options(write: &WriteArgs, why: &str) -> Result<(), Failure> {
    match write.directory_option() {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!("{option} applies to checkpoint directories only, and {why}"))),
    }
}
