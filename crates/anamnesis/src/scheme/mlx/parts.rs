//! The stored tensors of one weight.

use crate::catalog::TensorId;
use crate::scheme::claim::{Claims, TensorRole};

/// A weight and the companions that were found.
pub(super) struct Parts {
    pub(super) weight: TensorId,
    pub(super) scales: Option<TensorId>,
    pub(super) biases: Option<TensorId>,
    /// What transformers calls biases of groups.
    pub(super) qbiases: Option<TensorId>,
}

impl Parts {
    /// Takes the weight and what stands beside it.
    pub(super) fn take(claims: &mut Claims<'_>, weight: TensorId) -> Self {
        claims.take(weight, TensorRole::Quantized);
        let name = &claims.catalog.get(weight).name;
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let mut companion = |end: &str, role| {
            let id = claims.find_unclaimed(&format!("{module}.{end}"))?;
            claims.take(id, role);
            Some(id)
        };
        let (scales, biases) = (companion("scales", TensorRole::Scale), companion("biases", TensorRole::ZeroPoint));
        let qbiases = companion("qbiases", TensorRole::ZeroPoint);
        Self { weight, scales, biases, qbiases }
    }
}
