//! What is stored about activations beside quantised weights: without meaning once weights are decoded.

use crate::catalog::{Dtype, StoredTensor};
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

use super::parts::PACKED;

/// Ends of names that only this library uses; those that it shares are consumed with FP8's.
const ENDS: [&str; 10] = [
    ".input_global_scale",
    ".output_global_scale",
    ".q_global_scale",
    ".k_global_scale",
    ".v_global_scale",
    ".input_zero_point",
    ".output_zero_point",
    ".q_zero_point",
    ".k_zero_point",
    ".v_zero_point",
];

pub(super) fn part_names() -> impl Iterator<Item = PartName> {
    ENDS.into_iter().map(|end| PartName::new(end, PACKED, Confidence::IfQuantised))
}

/// Claims what belongs to the weights of its module, or, of a cache, of the modules inside.
pub(super) fn consume(claims: &mut Claims<'_>) {
    let is_known_type = |tensor: &StoredTensor| match tensor.name.ends_with("_zero_point") {
        true => matches!(tensor.dtype, Dtype::I8 | Dtype::F8E4M3),
        false => matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16),
    };
    // Caches may have one per head, everything else has one.
    let is_vector = |tensor: &StoredTensor| tensor.shape.iter().filter(|&&dim| dim != 1).count() <= 1;
    let found: Vec<_> = claims
        .unclaimed()
        .filter(|(_, tensor)| is_known_type(tensor) && is_vector(tensor))
        .filter_map(|(id, tensor)| Some((id, ENDS.iter().find_map(|end| tensor.name.strip_suffix(end))?)))
        .filter(|(_, module)| claims.has_quantised(&format!("{module}.")))
        .map(|(id, _)| id)
        .collect();
    for id in found {
        claims.take(id, TensorRole::Scale);
    }
}
