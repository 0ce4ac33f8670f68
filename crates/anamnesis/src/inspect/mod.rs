//! Summaries of checkpoints as plain data, which the front ends print.

mod cache;
mod contents;
mod folding;
mod info;
mod model;
mod names;
mod overview;
mod parameters;
mod settings;

use std::fmt;

use std::path::{Path, PathBuf};

use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor, TargetDtype, TensorId};
use crate::checkpoint::Checkpoint;
use crate::limits::ParseLimits;
use crate::scheme::{Coding, QuantScheme, TensorRole, Weight};

pub use cache::{AttentionKind, Cache, CacheLayers, UnknownCache};
pub use contents::{ContentTensor, Contents, StorageKind};
pub use folding::FoldedTensors;
pub(crate) use info::sealed;
pub use info::{InspectInfo, InspectSummary, SchemeSummary};
pub use model::ModelFacts;
pub use overview::{Overview, OverviewWarning};
pub use parameters::Parameters;

impl Checkpoint {
    /// Sizes, schemes and counts, without further reads.
    pub fn inspect(&self, options: &InspectOptions) -> InspectInfo {
        InspectInfo::of_claimed(&self.catalog, self.claimed(), options.output_dtype)
    }

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

/// Options of an inspection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InspectOptions {
    /// The output type of decoded weights.
    pub output_dtype: TargetDtype,
    /// Limits for entry points that parse.
    pub limits: ParseLimits,
}

impl InspectOptions {
    /// BF16, without limits.
    #[must_use]
    pub const fn new() -> Self {
        Self { output_dtype: TargetDtype::BF16, limits: ParseLimits::unbounded() }
    }

    /// Sets the output type.
    #[must_use]
    pub const fn with_output_dtype(mut self, dtype: TargetDtype) -> Self {
        self.output_dtype = dtype;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: ParseLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Formats a size in binary units.
///
/// ```
/// use anamnesis::format_bytes;
/// assert_eq!(format_bytes(1023), "1023 B");
/// assert_eq!(format_bytes(1536), "1.5 KB");
/// assert_eq!(format_bytes(4_670_885_068), "4.35 GB");
/// ```
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let in_units = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{:.1} KB", in_units(KIB)),
        MIB..GIB => format!("{:.0} MB", in_units(MIB)),
        GIB.. => format!("{:.2} GB", in_units(GIB)),
    }
}

/// Items separated by a comma and a space.
pub(crate) fn comma_list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::format_bytes;

    #[test]
    fn sizes_have_the_published_format() {
        let cases = [(0, "0 B"), (1024, "1.0 KB"), (1_048_575, "1024.0 KB"), (1_572_864, "2 MB"), (1 << 30, "1.00 GB")];
        for (bytes, text) in cases {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
