//! Scales and zero points of activations and caches, which are dropped because they mean nothing for decoded weights.

use crate::catalog::{Dtype, StoredTensor};
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

use super::parts::PACKED;

/// Suffixes that only this library uses; those it shares with FP8 are consumed there.
const SUFFIXES: [&str; 10] = [
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
    SUFFIXES.into_iter().map(|suffix| PartName::new(suffix, PACKED, Confidence::IfQuantised))
}

/// Claims these tensors if their module, or for caches one of its submodules, has a quantised weight.
pub(super) fn consume(claims: &mut Claims<'_>) {
    let is_known_type = |tensor: &StoredTensor| match tensor.name.ends_with("_zero_point") {
        true => matches!(tensor.dtype, Dtype::I8 | Dtype::F8E4M3),
        false => matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16),
    };
    // Caches may have a value per head; all others have one value.
    let is_vector = |tensor: &StoredTensor| tensor.shape.iter().filter(|&&dim| dim != 1).count() <= 1;
    let found: Vec<_> = claims
        .unclaimed()
        .filter(|(_, tensor)| is_known_type(tensor) && is_vector(tensor))
        .filter_map(|(id, tensor)| Some((id, SUFFIXES.iter().find_map(|suffix| tensor.name.strip_suffix(suffix))?)))
        .filter(|(_, module)| claims.has_quantised(&format!("{module}.")))
        .map(|(id, _)| id)
        .collect();
    for id in found {
        claims.take(id, TensorRole::Scale);
    }
}
