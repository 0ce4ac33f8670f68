//! The stored tensors of a Quark weight.

use crate::catalog::TensorId;
use crate::error::AnamnesisError;
use crate::scheme::claim::{Claims, TensorRole};

/// The codes of a weight, and the companions that are present.
pub(super) struct Parts {
    pub codes: TensorId,
    pub scale: Option<TensorId>,
    pub zeros: Option<TensorId>,
}

/// Scales and zero points of activations, which mean nothing for a decoded weight.
const ACTIVATION_PARTS: [&str; 4] = ["input_scale", "input_zero_point", "output_scale", "output_zero_point"];

impl Parts {
    /// Claims the codes of a weight and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        claims.take(codes, TensorRole::Quantized);
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix("weight").unwrap_or(name);
        let mut companion = |part: &str, role| claims.take_companion(&format!("{name}_{part}"), role);
        let parts = Self {
            codes,
            scale: companion("scale", TensorRole::Scale),
            zeros: companion("zero_point", TensorRole::ZeroPoint),
        };
        for part in ACTIVATION_PARTS {
            let one =
                claims.find_unclaimed(&format!("{module}{part}")).filter(|&id| claims.catalog.get(id).elements() == 1);
            if let Some(id) = one {
                claims.take(id, TensorRole::Scale);
            }
        }
        parts
    }

    /// The error that a companion is missing.
    pub(super) fn missing(&self, claims: &Claims<'_>, end: &str) -> AnamnesisError {
        let name = format!("{}_{end}", claims.catalog.get(self.codes).name);
        claims.missing(&name)
    }
}
