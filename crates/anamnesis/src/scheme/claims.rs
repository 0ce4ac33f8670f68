//! Claiming: every stored tensor is claimed exactly once, as a weight, as somebody's companion, or as plain data.

use crate::catalog::{Catalog, StoredTensor, TensorId, Unreadable};
use crate::error::{AnamnesisError, quoted};
use crate::quant_config::QuantConfig;

use super::{ClaimedTensor, QuantScheme, Recipe, TensorRole};

/// A quantised weight: what it will be called, and the stored tensors it is made of.
pub(crate) struct Weight {
    pub name: String,
    /// Its shape, empty where only its companions know it.
    pub shape: Vec<usize>,
    /// How many values it stands for, as far as the header tells.
    pub values: u64,
    pub scheme: QuantScheme,
    /// How its codes are grouped under scales, where the header alone tells.
    pub blocks: Option<Blocks>,
    /// The stored tensors that the decoder reads, in its order; the first holds the codes.
    pub parts: Vec<TensorId>,
    pub recipe: Recipe,
}

/// Codes of so many bits, so many of them under one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub bits: u8,
    pub size: u64,
    /// Whether the scales are quantised too.
    pub nested: bool,
}

/// The catalog while schemes claim from it.
pub(crate) struct Claims<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) config: &'a QuantConfig,
    elsewhere: &'a dyn Fn(&str) -> Option<String>,
    roles: Vec<Option<TensorRole>>,
    weights: Vec<Weight>,
    problems: Vec<AnamnesisError>,
}

/// The outcome: everything has a role, and whatever must not be converted is listed as a problem.
pub(crate) struct Claimed {
    pub(crate) roles: Vec<TensorRole>,
    pub(crate) weights: Vec<Weight>,
    /// Why this checkpoint cannot be decoded, in the order found. Inspecting it is still possible.
    pub(crate) problems: Vec<AnamnesisError>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        config: &'a QuantConfig,
        elsewhere: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let roles = vec![None; catalog.len()];
        Self { catalog, config, elsewhere, roles, weights: Vec::new(), problems: Vec::new() }
    }

    /// The tensors nobody has claimed yet.
    pub(super) fn free(&self) -> impl Iterator<Item = (TensorId, &'a StoredTensor)> + use<'_, 'a> {
        let catalog = self.catalog;
        catalog.iter().filter(|(id, _)| self.roles[id.index()].is_none())
    }

    /// The unclaimed tensor of this name.
    pub(super) fn find_free(&self, name: &str) -> Option<TensorId> {
        self.catalog.find(name).filter(|id| self.roles[id.index()].is_none())
    }

    /// Claims a tensor for a role; a second claim is refused.
    pub(super) fn take(&mut self, id: TensorId, role: TensorRole) {
        if self.roles[id.index()].replace(role).is_some() {
            let name = quoted(&self.catalog.get(id).name);
            self.problems.push(AnamnesisError::parse(format!("tensor {name} belongs to two quantised weights")));
        }
    }

    /// Adds a weight whose parts have been [taken](Self::take).
    pub(super) fn add(&mut self, weight: Weight) {
        self.weights.push(weight);
    }

    /// Says why a tensor cannot be decoded.
    pub(super) fn refuse(&mut self, problem: AnamnesisError) {
        self.problems.push(problem);
    }

    /// Where else a tensor may be, as a clause for a message; `None` where this input is all there is.
    pub(super) fn elsewhere(&self, name: &str) -> Option<String> {
        (self.elsewhere)(name)
    }

    pub(super) fn finish(self) -> Claimed {
        let roles = self.roles.into_iter().map(|role| role.unwrap_or(TensorRole::Passthrough)).collect();
        let unreadable = self.catalog.unreadable.iter();
        let mut problems: Vec<_> = unreadable.map(Unreadable::error).collect();
        problems.extend(self.problems);
        Claimed { roles, weights: self.weights, problems }
    }
}

impl Claimed {
    /// The scheme of most values, or of nothing.
    pub(crate) fn dominant_scheme(&self) -> QuantScheme {
        let mut totals: Vec<(QuantScheme, u64)> = Vec::new();
        for weight in &self.weights {
            match totals.iter_mut().find(|(scheme, _)| *scheme == weight.scheme) {
                Some((_, total)) => *total = total.saturating_add(weight.values),
                None => totals.push((weight.scheme, weight.values)),
            }
        }
        // The first of equals wins, so that the answer does not depend on how the maximum is searched.
        totals.iter().rev().max_by_key(|(_, total)| *total).map_or(QuantScheme::Unquantized, |(scheme, _)| *scheme)
    }

    /// One row per stored tensor, in the catalog's order.
    pub(crate) fn rows(&self, catalog: &Catalog) -> Vec<ClaimedTensor> {
        let row = |((_, tensor), &role): ((TensorId, &StoredTensor), &TensorRole)| ClaimedTensor {
            role,
            dtype: tensor.dtype,
            bytes: tensor.extent.bytes,
            values: tensor.elements(),
        };
        let mut rows: Vec<ClaimedTensor> = catalog.iter().zip(&self.roles).map(row).collect();
        for weight in &self.weights {
            if let Some(first) = weight.parts.first() {
                rows[first.index()].values = weight.values;
            }
        }
        rows
    }

    /// The schemes in detail with the number of weights each has, the most frequent first.
    pub(crate) fn details(&self) -> Vec<(String, usize)> {
        let mut details: Vec<(String, usize)> = Vec::new();
        for weight in &self.weights {
            let text = weight.recipe.describe();
            match details.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => details.push((text, 1)),
            }
        }
        details.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        details
    }
}
