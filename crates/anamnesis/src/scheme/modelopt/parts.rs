//! The stored tensors of one weight.

use super::naming::Names;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::scheme::claim::{Claims, TensorRole};

/// A weight and the companions that were found.
pub(super) struct Parts {
    pub(super) names: Names,
    pub(super) codes: TensorId,
    pub(super) scale: Option<TensorId>,
    pub(super) scale_of_scales: Option<TensorId>,
}

impl Parts {
    /// Takes the weight and what stands beside it.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        let names = Names::of(&claims.catalog.get(codes).name);
        claims.take(codes, TensorRole::Quantized);
        let mut companion = |name: &str, role| {
            let id = claims.find_unclaimed(name)?;
            claims.take(id, role);
            Some(id)
        };
        let scale = companion(&names.scale, TensorRole::Scale);
        let scale_of_scales = companion(&names.scale_of_scales, TensorRole::NestedScale);
        // The scale of activations has no meaning for a decoded weight. Any other tensor of that name is left over.
        let is_scale =
            |tensor: &StoredTensor| tensor.dtype == Dtype::F32 && tensor.shape.len() <= 1 && tensor.elements() == 1;
        let activations = claims.find_unclaimed(&names.input_scale).filter(|&id| is_scale(claims.catalog.get(id)));
        if let Some(id) = activations {
            claims.take(id, TensorRole::Scale);
        }
        Self { names, codes, scale, scale_of_scales }
    }
}
