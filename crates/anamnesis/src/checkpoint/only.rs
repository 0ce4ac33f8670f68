//! Restricting a checkpoint to some of its weights.

use std::sync::{Arc, OnceLock};

use super::Checkpoint;
use crate::catalog::Selection;
use crate::error::Result;
use crate::scheme::TensorRole;

impl Checkpoint {
    /// Restricts the checkpoint to the selected weights and their companions. Names are not changed.
    ///
    /// # Errors
    /// `Parse` if a pattern matches no tensor.
    pub fn only(mut self, selection: &Selection) -> Result<Self> {
        let claimed = self.claimed();
        let mut is_taken = vec![None; self.catalog.len()];
        for weight in &claimed.weights {
            for part in &weight.parts {
                // Weights may share companions.
                let taken = is_taken[part.index()].get_or_insert(false);
                *taken |= selection.takes(&weight.name);
            }
        }
        let plain = self.catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
        let names = claimed.weights.iter().map(|weight| weight.name.as_str());
        let names: Vec<&str> = names.chain(plain.map(|((_, tensor), _)| tensor.name.as_str())).collect();
        selection.check_used(&names)?;
        // Tensors that belong to no weight are selected by their own name.
        Arc::make_mut(&mut self.catalog)
            .retain(|id, tensor| is_taken[id.index()].unwrap_or_else(|| selection.takes(&tensor.name)));
        self.claimed = OnceLock::new();
        self.is_partial = true;
        Ok(self)
    }
}
