//! Better errors for files that are not of the format they were opened as.

use super::identity::{About, Format};
use super::interface::Evidence;
use super::registry::ALL;
use super::sniff::sniff;
use crate::error::{AnamnesisError, FileKind};
use crate::limits::is_caller_limit;

/// Replaces the error of opening a file as `format` by the kind of file it is, if the first bytes identify another one.
pub(crate) fn explain(error: AnamnesisError, format: Format, head: &[u8]) -> AnamnesisError {
    let is_about_content = match &error {
        AnamnesisError::Parse { .. } => true,
        // The first bytes of other files, read as counts, exceed the permanent caps.
        AnamnesisError::LimitExceeded { limit, .. } => !is_caller_limit(limit),
        _ => false,
    };
    if !is_about_content || format.about().container.recognises(head) >= Evidence::Ambiguous {
        return error;
    }
    if let Some((evidence, other)) = other_format(head) {
        let seems = if evidence == Evidence::Certain { "is" } else { "looks like" };
        let detail = format!("this {seems} {}, not {}", other.file, format.about().file);
        return AnamnesisError::not_a_model(FileKind::OtherFormat(other.name), detail);
    }
    sniff(head).map_or(error, Into::into)
}

/// The kind of a file that is not a tensor file, by its first bytes.
pub(super) fn non_tensor_kind(head: &[u8]) -> Option<FileKind> {
    if is_tensor_file(head) { None } else { sniff(head) }
}

/// Whether the first bytes of a file are those of a tensor file.
pub(super) fn is_tensor_file(head: &[u8]) -> bool {
    ALL.iter().any(|about| about.container.recognises(head) >= Evidence::Ambiguous)
}

/// The format that the first bytes identify. A ZIP signature alone does not: several formats are archives.
fn other_format(head: &[u8]) -> Option<(Evidence, &'static About)> {
    let found = ALL.iter().map(|about| (about.container.recognises(head), about));
    let best = found.max_by_key(|(evidence, _)| *evidence)?;
    matches!(best.0, Evidence::Ambiguous | Evidence::Certain).then_some(best)
}
