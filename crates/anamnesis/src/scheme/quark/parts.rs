//! The stored tensors of one weight.

use crate::catalog::TensorId;
use crate::error::{AnamnesisError, quoted};
use crate::scheme::claim::{Claims, TensorRole};

/// A weight and the companions that were found.
pub(super) struct Parts {
    pub codes: TensorId,
    pub scale: Option<TensorId>,
    pub zeros: Option<TensorId>,
}

/// What is said about activations, which has no meaning for a decoded weight.
const OF_ACTIVATIONS: [&str; 4] = ["input_scale", "input_zero_point", "output_scale", "output_zero_point"];

impl Parts {
    /// Takes the weight and what stands beside it.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        claims.take(codes, TensorRole::Quantized);
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix("weight").unwrap_or(name);
        let mut companion = |end: &str, role| {
            let id = claims.find_unclaimed(&format!("{name}_{end}"))?;
            claims.take(id, role);
            Some(id)
        };
        let parts = Self {
            codes,
            scale: companion("scale", TensorRole::Scale),
            zeros: companion("zero_point", TensorRole::ZeroPoint),
        };
        for end in OF_ACTIVATIONS {
            let one =
                claims.find_unclaimed(&format!("{module}{end}")).filter(|&id| claims.catalog.get(id).elements() == 1);
            if let Some(id) = one {
                claims.take(id, TensorRole::Scale);
            }
        }
        parts
    }

    /// That a companion is missing.
    pub(super) fn missing(&self, claims: &Claims<'_>, end: &str) -> AnamnesisError {
        let name = format!("{}_{end}", claims.catalog.get(self.codes).name);
        let place = claims.elsewhere(&name).map_or_else(String::new, |place| format!(": {place}"));
        AnamnesisError::parse(format!("it has no {}{place}", quoted(&name)))
    }
}
