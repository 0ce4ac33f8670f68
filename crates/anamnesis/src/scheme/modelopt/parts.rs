//! The stored tensors of a ModelOpt weight.

use super::naming::Names;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::scheme::claim::{Claims, TensorRole};

/// The codes of a weight, and the companions that are present.
pub(super) struct Parts {
    pub(super) names: Names,
    pub(super) codes: TensorId,
    pub(super) scale: Option<TensorId>,
    pub(super) global_scale: Option<TensorId>,
}

impl Parts {
    /// Claims the codes of a weight and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        let names = Names::of(&claims.catalog.get(codes).name);
        claims.take(codes, TensorRole::Quantized);
        let mut companion = |name: &str, role| claims.take_companion(name, role);
        let scale = companion(&names.scale, TensorRole::Scale);
        let global_scale = companion(&names.global_scale, TensorRole::NestedScale);
        // An activation scale means nothing for a decoded weight. Any other tensor of that name is a leftover.
        let is_scale =
            |tensor: &StoredTensor| tensor.dtype == Dtype::F32 && tensor.shape.len() <= 1 && tensor.elements() == 1;
        let activations = claims.find_unclaimed(&names.input_scale).filter(|&id| is_scale(claims.catalog.get(id)));
        if let Some(id) = activations {
            claims.take(id, TensorRole::Scale);
        }
        Self { names, codes, scale, global_scale }
    }
}
