//! Weights that share a global scale because loaders fuse them into one layer; the scale depends on all of them.

use std::sync::{Arc, Mutex, PoisonError};

use super::values::Values;
use crate::error::Result;

/// Weights that share a global scale.
pub(crate) struct SharedScale {
    members: Vec<Member>,
}

/// A weight of the group.
struct Member {
    name: String,
    values: Values,
    /// Its largest magnitude, computed on first use.
    largest: Mutex<Option<f32>>,
}

impl SharedScale {
    /// A group of named weights.
    pub(crate) fn new(members: impl Iterator<Item = (String, Values)>) -> Arc<Self> {
        let member = |(name, values)| Member { name, values, largest: Mutex::new(None) };
        Arc::new(Self { members: members.map(member).collect() })
    }

    /// The values of all members.
    pub(super) fn values(&self) -> impl Iterator<Item = &Values> {
        self.members.iter().map(|member| &member.values)
    }

    /// The largest magnitude of all members. Each is computed once, by the first worker that needs it; others wait.
    pub(super) fn largest(&self, find: &mut dyn FnMut(&Values) -> Result<f32>) -> Result<f32> {
        self.members.iter().try_fold(0.0, |largest: f32, member| {
            let mut known = member.largest.lock().unwrap_or_else(PoisonError::into_inner);
            let of_member = match *known {
                Some(largest) => largest,
                None => *known.insert(find(&member.values).map_err(|error| error.in_tensor(&member.name))?),
            };
            Ok(largest.max(of_member))
        })
    }
}
