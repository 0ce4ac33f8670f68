//! The stored tensors of an MLX weight.

use crate::catalog::TensorId;
use crate::scheme::claim::{Claims, TensorRole};

/// The codes of a weight, and the companions that are present.
pub(super) struct Parts {
    pub(super) weight: TensorId,
    pub(super) scales: Option<TensorId>,
    pub(super) biases: Option<TensorId>,
    /// The biases, as transformers names them.
    pub(super) qbiases: Option<TensorId>,
}

impl Parts {
    /// Claims the codes of a weight and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, weight: TensorId) -> Self {
        claims.take(weight, TensorRole::Quantized);
        let name = &claims.catalog.get(weight).name;
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let mut companion = |part: &str, role| claims.take_companion(&format!("{module}.{part}"), role);
        let (scales, biases) = (companion("scales", TensorRole::Scale), companion("biases", TensorRole::ZeroPoint));
        let qbiases = companion("qbiases", TensorRole::ZeroPoint);
        Self { weight, scales, biases, qbiases }
    }
}
