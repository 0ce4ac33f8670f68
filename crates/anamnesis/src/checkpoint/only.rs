//! Looking at a part of a checkpoint.

use std::sync::{Arc, OnceLock};

use super::Checkpoint;
use crate::catalog::Selection;
use crate::error::Result;
use crate::scheme::TensorRole;

impl Checkpoint {
    /// The checkpoint as if it had only the chosen weights, with their companions. Names stay as they are.
    ///
    /// # Errors
    /// `Parse` where a pattern fits no tensor.
    pub fn only(mut self, selection: &Selection) -> Result<Self> {
        let claimed = self.claimed();
        let mut is_taken = vec![None; self.catalog.len()];
        for weight in &claimed.weights {
            for part in &weight.parts {
                is_taken[part.index()] = Some(selection.takes(&weight.name));
            }
        }
        let plain = self.catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
        let names = claimed.weights.iter().map(|weight| weight.name.as_str());
        let names: Vec<&str> = names.chain(plain.map(|((_, tensor), _)| tensor.name.as_str())).collect();
        selection.check_used(&names)?;
        // What belongs to no weight is known by its own name.
        Arc::make_mut(&mut self.catalog)
            .retain(|id, tensor| is_taken[id.index()].unwrap_or_else(|| selection.takes(&tensor.name)));
        self.claimed = OnceLock::new();
        self.is_partial = true;
        Ok(self)
    }
}
