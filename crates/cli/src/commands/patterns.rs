//! Tensors chosen by patterns: which are listed, and what may have been meant where a pattern fits none.

use std::collections::HashMap;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, TensorSummary};

use crate::args::{ParseArgs, PatternArgs, SortBy};
use crate::close::{closest_dotted, did_you_mean};
use crate::exit::Failure;

/// Names that are suggested in place of a pattern that fits none.
const SUGGESTIONS: usize = 3;
/// Longest name suggested, in characters.
const MAX_NAME_CHARS: usize = 160;

/// The tensors to list, in the order asked for. A pattern may name a stored tensor or the weight it is a part of.
pub(super) fn listed<'a>(
    checkpoint: &'a Checkpoint,
    tensors: &[TensorSummary<'a>],
    args: &ParseArgs,
) -> Result<Vec<TensorSummary<'a>>, Failure> {
    let mut listed = tensors.to_vec();
    if !args.patterns.is_empty() {
        let (included, not_excluded) = (args.patterns.included()?, args.patterns.not_excluded()?);
        let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        let weights = checkpoint.weights();
        names.extend(weights.iter().map(|weight| weight.name.as_str()));
        for patterns in [&included, &not_excluded] {
            patterns.check_used(&names).map_err(|error| unfit(error, &args.patterns, &names))?;
        }
        let whole: HashMap<&str, &str> = weights
            .iter()
            .flat_map(|weight| weight.parts.iter().map(|part| (part.as_str(), weight.name.as_str())))
            .collect();
        listed.retain(|tensor| {
            let weight = whole.get(tensor.name).copied().unwrap_or(tensor.name);
            (included.takes(tensor.name) || included.takes(weight))
                && not_excluded.takes(tensor.name)
                && not_excluded.takes(weight)
        });
    }
    match args.sort {
        None => {}
        Some(SortBy::Name) => listed.sort_by_key(|tensor| tensor.name),
        Some(SortBy::Size) => listed.sort_by_key(|tensor| (std::cmp::Reverse(tensor.bytes), tensor.name)),
        Some(SortBy::Dtype) => listed.sort_by_key(|tensor| (tensor.dtype.to_string(), tensor.name)),
    }
    Ok(listed)
}

/// Adds the names that somebody may have meant with the pattern that fits none of `names`.
pub(super) fn unfit(error: AnamnesisError, patterns: &PatternArgs, names: &[&str]) -> Failure {
    let text = error.to_string();
    let mistyped = patterns.include.iter().chain(&patterns.exclude).find(|pattern| text.contains(pattern.as_str()));
    let near = mistyped.map_or_else(Vec::new, |pattern| {
        let plain: String = pattern.chars().filter(|character| !"*?[]".contains(*character)).collect();
        closest_dotted(plain.trim_matches('.'), names.iter().copied(), SUGGESTIONS)
    });
    let near: Vec<_> = near.iter().map(|name| printable(name, MAX_NAME_CHARS)).collect();
    let near: Vec<_> = near.iter().map(String::as_str).collect();
    let advice = did_you_mean(&near).unwrap_or_else(|| "amn parse --list shows the names".to_owned());
    Failure::Refused { error, advice: Some(advice) }
}
