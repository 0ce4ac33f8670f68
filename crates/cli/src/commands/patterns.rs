//! Selection of tensors by patterns, with suggestions for unused ones.

use std::collections::HashMap;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, Request, TensorRole};

use super::remedy;
use crate::args::ChoiceArgs;
use crate::exit::Failure;
use crate::suggest::{closest, closest_dotted, did_you_mean};

/// Maximum number of suggested names.
const SUGGESTIONS: usize = 3;
/// Maximum characters of a suggested name.
const MAX_NAME_CHARS: usize = 160;

/// The checkpoint reduced to the selected tensors.
pub(super) fn select(choice: &ChoiceArgs, checkpoint: Checkpoint) -> Result<Checkpoint, Failure> {
    // Selecting consumes the checkpoint, so the names are collected first.
    let names = if choice.is_empty() { Names::default() } else { Names::of(&checkpoint) };
    if choice.is_empty() {
        return Ok(checkpoint);
    }
    checkpoint.only(&choice.selection()?).map_err(|error| names.advise(error))
}

/// Adds suggestions to the error of an unused pattern.
pub(super) fn advise(error: AnamnesisError, checkpoint: &Checkpoint) -> Failure {
    match error {
        AnamnesisError::Request(Request::UnknownKey { ref key }) => {
            let key = key.clone();
            unknown_key(error, &key, checkpoint)
        }
        error @ AnamnesisError::Parse { .. } => {
            let advice = remedy::of_leftovers(checkpoint);
            Failure::Refused { error, advice }
        }
        error => Names::of(checkpoint).advise(error),
    }
}

/// The same for a metadata key to remove.
fn unknown_key(error: AnamnesisError, key: &str, checkpoint: &Checkpoint) -> Failure {
    let entries = checkpoint.metadata().unwrap_or_default();
    let near = closest_dotted(key, entries.iter().map(|(name, _)| name.as_str()), SUGGESTIONS);
    let near: Vec<_> = near.iter().map(|name| printable(name, MAX_NAME_CHARS)).collect();
    let asked = did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>());
    Failure::Refused { error, advice: asked.or_else(|| Some("amn inspect --metadata lists the keys".to_owned())) }
}

/// The names that patterns match, and the parts with their weights.
#[derive(Default)]
struct Names {
    chosen: Vec<String>,
    parts: Vec<(String, String)>,
}

impl Names {
    fn of(checkpoint: &Checkpoint) -> Self {
        let (mut chosen, mut parts) = (Vec::new(), Vec::new());
        for weight in checkpoint.weights() {
            parts.extend(weight.parts.into_iter().map(|part| (part, weight.name.clone())));
            chosen.push(weight.name);
        }
        let stored = checkpoint.tensors();
        let plain = stored.iter().filter(|tensor| tensor.role == TensorRole::Passthrough);
        chosen.extend(plain.map(|tensor| tensor.name.to_owned()));
        Self { chosen, parts }
    }

    fn advise(&self, error: AnamnesisError) -> Failure {
        let AnamnesisError::Request(Request::UnusedPattern { pattern }) = &error else { return error.into() };
        let shown = |name: &str| printable(name, MAX_NAME_CHARS);
        let near: Vec<_> =
            close_names(pattern, self.chosen.iter().map(String::as_str)).into_iter().map(shown).collect();
        let asked = did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>());
        let part = || {
            let names = self.parts.iter().map(|(part, _)| part.as_str());
            let part = close_names(pattern, names).into_iter().next()?;
            let (_, weight) = self.parts.iter().find(|(name, _)| name == part)?;
            Some(format!("{} is a part of {}, whose name selects both", shown(part), shown(weight)))
        };
        let advice = asked.or_else(part).unwrap_or_else(|| "amn parse --list shows the names".to_owned());
        Failure::Refused { error, advice: Some(advice) }
    }
}

/// The names similar to a pattern. For a pattern with a trailing wildcard, names are compared without their ends.
fn close_names<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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
    fn names_similar_to_a_pattern_are_found() {
        let names = ["lm_head.weight", "model.layers.0.mlp.down_proj.weight", "model.norm.weight"];
        let found = |pattern: &str| close_names(pattern, names.into_iter());
        assert_eq!(found("lm_hed*"), ["lm_head.weight"]);
        assert_eq!(found("model.layer.0.*"), ["model.layers.0.mlp.down_proj.weight"]);
        assert_eq!(found("model.nrm.weight"), ["model.norm.weight"]);
        assert_eq!(found("blk.*"), [""; 0]);
        assert_eq!(found("*"), [""; 0]);
    }
}
