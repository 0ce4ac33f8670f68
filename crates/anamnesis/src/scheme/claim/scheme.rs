//! The [`Scheme`] trait: what a quantisation scheme implements to be listed in the registry.

use super::claims::Claims;
use super::part_name::PartName;

/// A quantisation scheme.
pub(crate) trait Scheme: Send + Sync {
    /// Claims the weights of this scheme, with their companions, among the unclaimed tensors. An inconsistent weight
    /// becomes a problem that names the tensor.
    fn claim(&self, claims: &mut Claims<'_>);

    /// The formats it decodes or refuses, for the list of supported formats.
    fn about(&self) -> About;

    /// The names of the stored parts of its weights, by which a part is recognised whose weight is missing.
    fn part_names(&self) -> Vec<PartName> {
        Vec::new()
    }
}

/// The formats of a scheme.
pub(crate) enum About {
    /// A decoded format: its usual name, and the supported variants.
    Decoded(&'static str, &'static str),
    /// The names of formats that are recognised and refused.
    Refused(Vec<&'static str>),
}
