//! Why a file could not be opened, where it is none of the format it was taken for.

use super::identity::{About, Format};
use super::interface::Evidence;
use super::registry::ALL;
use super::sniff::{by_ending, sniff};
use crate::error::{AnamnesisError, FileKind};
use crate::limits::is_limit_of_caller;

/// The error of opening a file that was taken for one of `format`: what it is, where its first bytes or the ending of its
/// name (in lower case) tell that it is something else, and otherwise what was wrong with it.
pub(crate) fn explain(error: AnamnesisError, format: Format, head: &[u8], ending: &str) -> AnamnesisError {
    let is_about_content = match &error {
        AnamnesisError::Parse { .. } => true,
        // Other kinds of files begin with what reads as enormous numbers.
        AnamnesisError::LimitExceeded { limit, .. } => !is_limit_of_caller(limit),
        _ => false,
    };
    if !is_about_content || format.about().container.recognises(head) >= Evidence::Alike {
        return error;
    }
    if let Some((evidence, other)) = other_format(head) {
        let seems = if evidence == Evidence::Certain { "is" } else { "looks like" };
        let detail = format!("this {seems} {}, not {}", other.file, format.about().file);
        return AnamnesisError::not_a_model(FileKind::OtherFormat(other.name), detail);
    }
    match (sniff(head), by_ending(ending)) {
        (Some(kind), _) => kind.into(),
        (None, Some(kind)) => AnamnesisError::not_a_model(kind, format!("by its name, this is {kind}")),
        (None, None) => error,
    }
}

/// What a file is that holds no tensors, by its first bytes.
pub(super) fn no_tensor_file(head: &[u8]) -> Option<FileKind> {
    let is_tensor_file = ALL.iter().any(|about| about.container.recognises(head) >= Evidence::Alike);
    if is_tensor_file { None } else { sniff(head) }
}

/// The format that the first bytes of a file speak for. An archive may be of any format that is one, which says too little.
fn other_format(head: &[u8]) -> Option<(Evidence, &'static About)> {
    let found = ALL.iter().map(|about| (about.container.recognises(head), about));
    let best = found.max_by_key(|(evidence, _)| *evidence)?;
    matches!(best.0, Evidence::Alike | Evidence::Certain).then_some(best)
}
