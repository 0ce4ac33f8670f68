//! Queries on the values of a pickle: entries, items, and whether a value contains tensors.

use std::borrow::Cow;
use std::collections::HashMap;

use super::pickle::caps::MAX_PICKLE_VM_DEPTH;
use super::pickle::{Id, PickleValues, Value};
use super::rebuild;
use super::view::Kind;
use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// Maximum nesting of type tags.
const MAX_TAGS: usize = 8;
/// Maximum arguments of a dict class: default factory and entries.
const MAX_MAPPING_ARGS: usize = 2;
/// Bytes of a cache entry.
const KNOWN_BYTES: u64 = 64;

/// Queries on the values of a pickle, with a cache.
pub(super) struct PickleContents<'v, 'a> {
    pub(super) values: &'v PickleValues<'a>,
    /// Contents of values already examined.
    holds: HashMap<Id, Holds>,
}

/// The contents of a value, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    NoTensor,
    Scalars,
    Weights,
}

impl<'v, 'a> PickleContents<'v, 'a> {
    pub(super) fn new(values: &'v PickleValues<'a>) -> Self {
        Self { values, holds: HashMap::new() }
    }

    pub(super) fn is_tensor(&self, id: Id) -> bool {
        matches!(self.kind(id), Some(Kind::Tensor | Kind::Scalar))
    }

    /// Whether a value is a tensor that may be a weight.
    pub(super) fn is_weight(&self, id: Id) -> bool {
        self.kind(id) == Some(Kind::Tensor)
    }

    fn kind(&self, id: Id) -> Option<Kind> {
        let Value::Object(object) = self.values.get(id) else { return None };
        Some(rebuild::kind(object, self.values))
    }

    /// The value without its type tags.
    fn untagged(&self, id: Id) -> Id {
        let mut id = id;
        for _ in 0..MAX_TAGS {
            match self.values.get(id) {
                Value::Object(object) if rebuild::kind(object, self.values) == Kind::Tagged => {
                    match self.values.tuple(object.args).and_then(|args| args.first()) {
                        Some(&inner) => id = inner,
                        None => break,
                    }
                }
                _ => break,
            }
        }
        id
    }

    /// The entries of a mapping: a dict, or the attributes of a TorchScript module.
    pub(super) fn mapping(&self, id: Id) -> Option<Cow<'v, [(Id, Id)]>> {
        match self.values.get(self.untagged(id)) {
            Value::Dict(entries) => Some(Cow::Borrowed(entries)),
            Value::Object(object) => match rebuild::kind(object, self.values) {
                Kind::Mapping => {
                    let mut entries = Vec::new();
                    // Python 2 pickles the entries of an ordered dict as a list of pairs.
                    for &argument in self.values.tuple(object.args).unwrap_or_default().iter().take(MAX_MAPPING_ARGS) {
                        match self.values.get(argument) {
                            Value::Dict(given) => entries.extend_from_slice(given),
                            Value::List(pairs) => entries.extend(pairs.iter().filter_map(|&pair| self.pair(pair))),
                            _ => {}
                        }
                    }
                    if entries.is_empty() {
                        return Some(Cow::Borrowed(object.items()));
                    }
                    entries.extend_from_slice(object.items());
                    Some(Cow::Owned(entries))
                }
                Kind::Script => self.mapping_of_state(object.state?),
                _ => None,
            },
            _ => None,
        }
    }

    fn pair(&self, id: Id) -> Option<(Id, Id)> {
        match self.values.get(id) {
            Value::List(&[key, value]) | Value::Tuple(&[key, value]) => Some((key, value)),
            _ => None,
        }
    }

    fn mapping_of_state(&self, state: Id) -> Option<Cow<'v, [(Id, Id)]>> {
        if let Value::Dict(entries) = self.values.get(state) { Some(Cow::Borrowed(entries)) } else { None }
    }

    /// The items of a sequence.
    pub(super) fn sequence(&self, id: Id) -> Option<&'v [Id]> {
        match self.values.get(self.untagged(id)) {
            Value::Tuple(items) | Value::List(items) => Some(items),
            Value::Object(object) => match rebuild::kind(object, self.values) {
                // A TorchScript module with a custom `__getstate__`: a tuple.
                Kind::Script => match self.values.get(object.state?) {
                    Value::Tuple(items) | Value::List(items) => Some(items),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn is_script(&self, id: Id) -> bool {
        self.kind(id) == Some(Kind::Script)
    }

    /// Whether a value contains a tensor.
    pub(super) fn holds_tensor(&mut self, id: Id, depth: usize, budget: &mut Budget) -> Result<bool> {
        Ok(self.holds(id, depth, budget)? > Holds::NoTensor)
    }

    /// Whether a value contains a tensor that may be a weight.
    pub(super) fn holds_weight(&mut self, id: Id, budget: &mut Budget) -> Result<bool> {
        Ok(self.holds(id, 0, budget)? == Holds::Weights)
    }

    /// The contents of a value. Each value is examined once.
    fn holds(&mut self, id: Id, depth: usize, budget: &mut Budget) -> Result<Holds> {
        match self.kind(id) {
            Some(Kind::Tensor) => return Ok(Holds::Weights),
            Some(Kind::Scalar) => return Ok(Holds::Scalars),
            _ => {}
        }
        if let Some(&known) = self.holds.get(&id) {
            return Ok(known);
        }
        check_depth(depth)?;
        let children: Vec<Id> = match (self.mapping(id), self.sequence(id)) {
            (Some(entries), _) => entries.iter().map(|&(_, value)| value).collect(),
            (None, Some(items)) => items.to_vec(),
            (None, None) => return Ok(Holds::NoTensor),
        };
        // Breaks cycles.
        budget.working_set(KNOWN_BYTES, "the values of the pickle")?;
        self.holds.insert(id, Holds::NoTensor);
        let mut most = Holds::NoTensor;
        for child in children {
            most = most.max(self.holds(child, depth + 1, budget)?);
            if most == Holds::Weights {
                break;
            }
        }
        self.holds.insert(id, most);
        Ok(most)
    }
}

/// Refuses values that are nested too deeply.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth <= MAX_PICKLE_VM_DEPTH {
        return Ok(());
    }
    let message = format!("values of the pickle are nested more than {MAX_PICKLE_VM_DEPTH} deep");
    Err(AnamnesisError::limit("MAX_PICKLE_VM_DEPTH", message))
}
