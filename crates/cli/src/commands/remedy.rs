//! The flags for remedies.

use anamnesis::error::printable;
use anamnesis::{Checkpoint, InspectOptions, Note, Remedy};

/// Maximum characters of a name in advice.
const MAX_NAME_CHARS: usize = 160;

/// A note with the flag of its remedy.
pub(super) fn note(note: &Note) -> String {
    match &note.remedy {
        Some(Remedy::ChoosePart) => format!("{note}; --select reads one of them"),
        Some(Remedy::TakeAllOrChoose { path: None }) => format!("{note} (--all or --select reads them)"),
        Some(Remedy::TakeAllOrChoose { path: Some(path) }) => {
            format!("{note} (--all or --select {} reads them)", printable(path, MAX_NAME_CHARS))
        }
        Some(remedy) => match advice(remedy) {
            Some(advice) => format!("{note}; {advice}"),
            None => note.to_string(),
        },
        None => note.to_string(),
    }
}

/// The flag for an unsupported tensor.
pub(super) fn advice(remedy: &Remedy) -> Option<String> {
    match remedy {
        Remedy::LeaveOut => Some("--skip-unsupported omits them".to_owned()),
        Remedy::NameType { array } => {
            Some(format!("if it is E4M3, add `--npy-dtype {}=e4m3`", printable(array, MAX_NAME_CHARS)))
        }
        _ => None,
    }
}

/// The flag for a checkpoint whose only problems are unclaimed tensors.
pub(super) fn of_leftovers(checkpoint: &Checkpoint) -> Option<String> {
    let leftovers = checkpoint.leftovers().len();
    let is_all = leftovers > 0 && checkpoint.inspect(&InspectOptions::new()).problems.len() == leftovers;
    is_all.then(|| "if it is plain data, --allow-unclaimed copies it".to_owned())
}
