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

use crate::catalog::TargetDtype;
use crate::checkpoint::Checkpoint;
use crate::limits::ParseLimits;

pub use crate::checkpoint::{TensorSummary, WeightSummary};
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
