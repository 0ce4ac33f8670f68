//! Selection of the part of a checkpoint to read: the model's weights under a usual key, or a path.

use super::contents::PickleContents;
use super::notes::NameList;
use super::pickle::Id;
use super::storage::name_of;
use crate::catalog::Note;
use crate::error::{Remedy, Request, Result, quoted};
use crate::limits::Budget;

/// Usual keys of the model's weights, in order of preference.
const WRAPPERS: [&str; 13] = [
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "module",
    "net",
    "network",
    "weights",
    "params",
    "params_ema",
    "ema",
    "ema_state_dict",
    "model_ema",
];
/// Prefixes of keys that hold training state.
const TRAINING: [&str; 9] = ["optim", "sched", "lr_", "rng", "random", "scaler", "amp", "callback", "loop"];
/// Maximum nesting of wrappers.
const MAX_WRAPPED: usize = 3;

impl PickleContents<'_, '_> {
    /// The entry of a dict that holds the model's weights.
    fn find_wrapper(&mut self, entries: &[(Id, Id)], budget: &mut Budget) -> Result<Option<(&'static str, Id)>> {
        for wrapper in WRAPPERS {
            let under = entries.iter().find(|&&(key, _)| self.values.text(key) == Some(wrapper));
            if let Some(&(_, value)) = under
                && self.mapping(value).is_some()
                && self.holds_weight(value, budget)?
            {
                return Ok(Some((wrapper, value)));
            }
        }
        Ok(None)
    }

    /// The model's weights in a checkpoint, or the value itself.
    pub(super) fn find_weights(&mut self, root: Id, notes: &mut Vec<Note>, budget: &mut Budget) -> Result<Id> {
        let mut at = root;
        let mut path: Vec<&str> = Vec::new();
        let mut left_out = NameList::default();
        while path.len() < MAX_WRAPPED && !self.is_script(at) {
            let entries = self.mapping(at).unwrap_or_default();
            // A dict of mostly tensors is the model itself, whatever its keys.
            let tensors = entries.iter().filter(|&&(_, value)| self.is_weight(value)).count();
            if tensors * 2 > entries.len() {
                break;
            }
            let Some((wrapper, value)) = self.find_wrapper(&entries, budget)? else { break };
            if let Some(other) = entries.iter().find(|&&(key, other)| other != value && self.is_other_model(key, other))
            {
                let other = name_of(other.0, self.values).unwrap_or_default();
                let (wrapper, other) = (quoted(&joined(&path, wrapper)), quoted(&joined(&path, &other)));
                let note = Note::new(format!("{wrapper} and {other} both look like a model"));
                notes.push(note.with_remedy(Remedy::ChoosePart));
                return Ok(at);
            }
            for &(key, other) in &*entries {
                if other != value && self.holds_tensor(other, 0, budget)? {
                    let name = name_of(key, self.values).unwrap_or_default();
                    left_out.add(&joined(&path, &name));
                }
            }
            path.push(wrapper);
            at = value;
        }
        if !path.is_empty() {
            let took = format!("read the tensors under {}", quoted(&path.join(".")));
            notes.push(match left_out.count {
                0 => Note::new(took),
                _ => Note::new(format!("{took}; left out {}", left_out.text()))
                    .with_remedy(Remedy::TakeAllOrChoose { path: None }),
            });
        }
        Ok(at)
    }

    /// Whether this is another dict of weights that is neither a copy of the model nor training state. Then all are
    /// read, because the choice would be ambiguous.
    fn is_other_model(&self, key: Id, value: Id) -> bool {
        let name = name_of(key, self.values).unwrap_or_default();
        let is_known = WRAPPERS.contains(&name.as_str()) || TRAINING.iter().any(|start| name.starts_with(start));
        let entries = self.mapping(value).unwrap_or_default();
        let tensors = entries.iter().filter(|&&(_, value)| self.is_weight(value)).count();
        !is_known && tensors * 2 > entries.len()
    }

    /// The value at a path. Keys may contain dots, so the longest matching key is used.
    pub(super) fn select(&self, root: Id, path: &str) -> Result<Id> {
        let mut at = root;
        let mut rest = path;
        while !rest.is_empty() {
            let missing = || {
                let keys = self.mapping(at).unwrap_or_default();
                let mut listed = NameList::default();
                keys.iter().filter_map(|&(key, _)| name_of(key, self.values)).for_each(|key| listed.add(&key));
                let there = if listed.count == 0 { "unnamed values".to_owned() } else { listed.text() };
                Request::UnknownPart { path: path.to_owned(), missing: rest.to_owned(), found: there }
            };
            let is_here = |key: &str| rest == key || rest.strip_prefix(key).is_some_and(|more| more.starts_with('.'));
            let by_key = self.mapping(at).and_then(|entries| {
                let named = entries.iter().filter_map(|&(key, value)| Some((name_of(key, self.values)?, value)));
                named.filter(|(key, _)| is_here(key)).max_by_key(|(key, _)| key.len())
            });
            let by_place = || {
                let first = rest.split('.').next().unwrap_or(rest);
                Some((first.to_owned(), *self.sequence(at)?.get(first.parse::<usize>().ok()?)?))
            };
            let (key, value) = by_key.or_else(by_place).ok_or_else(missing)?;
            rest = rest.get(key.len()..).unwrap_or_default();
            rest = rest.strip_prefix('.').unwrap_or(rest);
            at = value;
        }
        Ok(at)
    }
}

fn joined(path: &[&str], name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{}.{name}", path.join(".")) }
}
