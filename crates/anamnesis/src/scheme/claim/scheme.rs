//! What a quantisation scheme is to the registry: it claims weights, and says what it knows.

use super::claims::Claims;
use super::part_name::PartName;

/// A quantisation scheme.
pub(crate) trait Scheme: Send + Sync {
    /// Claims the weights of this scheme, with their companions, among the tensors nobody has claimed yet. Whatever is
    /// inconsistent becomes a problem that names the tensor.
    fn claim(&self, claims: &mut Claims<'_>);

    /// What it knows, for a list of what this build decodes.
    fn about(&self) -> About;

    /// What it calls the stored parts of a weight, so that they are known where the weight is not.
    fn part_names(&self) -> Vec<PartName> {
        Vec::new()
    }
}

/// What a scheme knows.
pub(crate) enum About {
    /// Weights that are decoded: the name users know, and which forms of it.
    Decoded(&'static str, &'static str),
    /// Weights that are recognised and refused, by the names of their formats.
    Refused(Vec<&'static str>),
}
