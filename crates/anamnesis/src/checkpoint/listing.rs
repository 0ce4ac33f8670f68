//! Lists of the tensors of a checkpoint: as stored, and as decoded.

use std::path::{Path, PathBuf};

use super::Checkpoint;
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::scheme::{Coding, QuantScheme, TensorRole, Weight};

impl Checkpoint {
    /// All quantised weights: decoded name, shape, scheme and stored tensors. Reads a small companion if only that
    /// contains the shape.
    #[must_use]
    pub fn weights(&self) -> Vec<WeightSummary> {
        self.claimed().weights.iter().map(|weight| self.weight_summary(weight)).collect()
    }

    /// The quantised weight with this name.
    #[must_use]
    pub fn weight(&self, name: &str) -> Option<WeightSummary> {
        self.claimed().weight(name).map(|weight| self.weight_summary(weight))
    }

    /// The names of all decoded tensors in order: quantised weights, and plain tensors without their companions.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let weights = self.claimed().weights.iter().map(|weight| weight.name.as_str());
        let mut names: Vec<&str> = weights.chain(self.plain().map(|tensor| tensor.name.as_str())).collect();
        names.sort_unstable();
        names
    }

    /// The stored tensor with this name.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<TensorSummary<'_>> {
        let id = self.catalog.find(name)?;
        let role = *self.claimed().roles.get(id.index())?;
        Some(self.summary(self.catalog.get(id), role))
    }

    fn weight_summary(&self, weight: &Weight) -> WeightSummary {
        // An unreadable companion is reported when the weight is decoded.
        let prepared = if weight.shape.is_empty() { self.prepare(weight).ok() } else { None };
        let (shape, coding) = match prepared {
            Some(prepared) => (Some(prepared.shape), prepared.coding),
            None => (Some(weight.shape.clone()).filter(|shape| !shape.is_empty()), None),
        };
        WeightSummary {
            name: weight.name.clone(),
            values: shape.as_deref().and_then(elements),
            shape,
            scheme: weight.recipe.describe(),
            family: weight.scheme,
            coding: coding.unwrap_or_else(|| weight.coding.clone()),
            parts: weight.parts.iter().map(|id: &TensorId| self.catalog.get(*id).name.clone()).collect(),
        }
    }

    /// All stored tensors with their roles and files, sorted by name.
    #[must_use]
    pub fn tensors(&self) -> Vec<TensorSummary<'_>> {
        let claimed = self.claimed();
        self.catalog.iter().zip(&claimed.roles).map(|((_, tensor), &role)| self.summary(tensor, role)).collect()
    }

    /// [`tensors`](Self::tensors) in file order.
    #[must_use]
    pub fn tensors_as_stored(&self) -> Vec<TensorSummary<'_>> {
        let claimed = self.claimed();
        let mut stored: Vec<_> = self.catalog.iter().map(|(_, tensor)| tensor).zip(&claimed.roles).collect();
        stored.sort_by_key(|(tensor, _)| (tensor.extent.file, tensor.extent.offset));
        stored.into_iter().map(|(tensor, &role)| self.summary(tensor, role)).collect()
    }

    fn summary<'a>(&'a self, tensor: &'a StoredTensor, role: TensorRole) -> TensorSummary<'a> {
        TensorSummary {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
            bytes: tensor.extent.bytes,
            role,
            file: self.paths.get(tensor.extent.file as usize).map(PathBuf::as_path),
        }
    }
}

/// A quantised weight.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightSummary {
    /// Its decoded name.
    pub name: String,
    /// Its decoded shape; `None` if it cannot be read.
    pub shape: Option<Vec<usize>>,
    /// Number of values; `None` if the shape is unknown.
    pub values: Option<u64>,
    /// Description of its scheme.
    pub scheme: String,
    /// The family of its scheme.
    pub family: QuantScheme,
    /// Its codes.
    pub coding: Coding,
    /// Its stored tensors; the first contains the codes.
    pub parts: Vec<String>,
}

/// A stored tensor.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TensorSummary<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: &'a [usize],
    /// Its size in bytes.
    pub bytes: u64,
    /// Its role.
    pub role: TensorRole,
    /// Its file; `None` if the checkpoint was not opened from files.
    pub file: Option<&'a Path>,
}
