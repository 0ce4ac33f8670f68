//! What to type to get what was refused or left out.

use anamnesis::error::printable;
use anamnesis::{Checkpoint, InspectOptions, Note, Remedy};

/// Longest name in advice, in characters.
const MAX_NAME_CHARS: usize = 160;

/// A note, and what to type to have it otherwise.
pub(super) fn note(note: &Note) -> String {
    match &note.remedy {
        Some(Remedy::ChoosePart) => format!("{note}; --select takes one of them"),
        Some(Remedy::TakeAllOrChoose { path: None }) => format!("{note} (--all or --select takes them)"),
        Some(Remedy::TakeAllOrChoose { path: Some(path) }) => {
            format!("{note} (--all or --select {} takes them)", printable(path, MAX_NAME_CHARS))
        }
        Some(remedy) => match advice(remedy) {
            Some(advice) => format!("{note}; {advice}"),
            None => note.to_string(),
        },
        None => note.to_string(),
    }
}

/// What to type about a tensor that is not read.
pub(super) fn advice(remedy: &Remedy) -> Option<String> {
    match remedy {
        Remedy::LeaveOut => Some("--skip-unsupported leaves them out".to_owned()),
        Remedy::NameType { array } => {
            Some(format!("if it is E4M3, say `--npy-dtype {}=e4m3`", printable(array, MAX_NAME_CHARS)))
        }
        _ => None,
    }
}

/// What to type about a checkpoint whose only problems are tensors that look packed and belong to no weight.
pub(super) fn of_leftovers(checkpoint: &Checkpoint) -> Option<String> {
    let leftovers = checkpoint.leftovers().len();
    let is_all = leftovers > 0 && checkpoint.inspect(&InspectOptions::new()).problems.len() == leftovers;
    is_all.then(|| "where you know that it is plain data, --allow-unclaimed copies it as it is".to_owned())
}
