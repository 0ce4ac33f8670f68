//! Tensors chosen by patterns: which are listed, and what may have been meant where a pattern fits none.

use std::collections::HashMap;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, TensorSummary};

use crate::args::{ParseArgs, SortBy};
use crate::close::{closest, did_you_mean};
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
            patterns.check_used(&names).map_err(|error| unfit(error, checkpoint))?;
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

/// Adds the names that somebody may have meant, where the error is a pattern that fits no tensor.
pub(super) fn unfit(error: AnamnesisError, checkpoint: &Checkpoint) -> Failure {
    let text = error.to_string();
    let Some(pattern) = text.split_once("no tensor fits the pattern \"").and_then(|(_, rest)| rest.strip_suffix('"'))
    else {
        return error.into();
    };
    let weights = checkpoint.weights();
    let stored = checkpoint.tensors();
    let names = weights.iter().map(|weight| weight.name.as_str()).chain(stored.iter().map(|tensor| tensor.name));
    let near: Vec<_> = near(pattern, names).into_iter().map(|name| printable(name, MAX_NAME_CHARS)).collect();
    let advice = did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>());
    Failure::Refused { error, advice: Some(advice.unwrap_or_else(|| "amn parse --list shows the names".to_owned())) }
}

/// The names that are close to a pattern. What it leaves open at its end is left out of the names, too.
fn near<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let plain: String = pattern.chars().filter(|character| !"*?[]".contains(*character)).collect();
    let plain = plain.trim_matches('.');
    let parts = plain.split('.').count();
    let mut fronts: HashMap<&str, &str> = HashMap::new();
    for name in names {
        let end = name.match_indices('.').nth(parts - 1).map_or(name.len(), |(end, _)| end);
        fronts.entry(name).or_insert(name);
        fronts.entry(&name[..end]).or_insert(name);
    }
    let mut near: Vec<&str> = Vec::new();
    for front in closest(plain, fronts.keys().copied(), 2 * SUGGESTIONS) {
        if let Some(name) = fronts.get(front).filter(|name| !near.contains(name)) {
            near.push(name);
        }
    }
    near.truncate(SUGGESTIONS);
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_close_to_patterns() {
        let names = ["lm_head.weight", "model.layers.0.mlp.down_proj.weight", "model.norm.weight"];
        let found = |pattern: &str| near(pattern, names.into_iter());
        assert_eq!(found("lm_hed*"), ["lm_head.weight"]);
        assert_eq!(found("model.layer.0.*"), ["model.layers.0.mlp.down_proj.weight"]);
        assert_eq!(found("model.nrm.weight"), ["model.norm.weight"]);
        assert_eq!(found("blk.*"), [""; 0]);
        assert_eq!(found("*"), [""; 0]);
    }
}
