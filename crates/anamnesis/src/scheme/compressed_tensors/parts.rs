//! The stored tensors of one weight.

use crate::catalog::{StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

/// The suffix of packed codes.
pub(super) const PACKED: &str = ".weight_packed";
/// The suffix of codes that have the name of the weight itself.
pub(super) const WEIGHT: &str = ".weight";

/// The names of a weight's parts, except the scale, which FP8 lists.
pub(super) const PART_NAMES: [PartName; 6] = [
    PartName::new(PACKED, PACKED, Confidence::Certain),
    PartName::new(".weight_zero_point", PACKED, Confidence::Certain),
    PartName::new(".weight_shape", PACKED, Confidence::Certain),
    PartName::new(".weight_g_idx", PACKED, Confidence::Certain),
    PartName::new(".weight_global_scale", PACKED, Confidence::Certain),
    PartName::new(".scale_packed", PACKED, Confidence::Certain),
];

/// Codes and the companions that were found.
pub(super) struct Parts {
    pub codes: TensorId,
    pub scale: Option<TensorId>,
    pub zero_point: Option<TensorId>,
    pub shape: Option<TensorId>,
    pub g_idx: Option<TensorId>,
    pub global_scale: Option<TensorId>,
    /// Companions of marlin-24.
    pub scale_packed: Option<TensorId>,
    pub meta: Option<TensorId>,
}

impl Parts {
    /// Claims codes whose name ends in `suffix`, and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId, suffix: &str) -> Self {
        claims.take(codes, TensorRole::Quantized);
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(suffix).unwrap_or(name);
        let mut companion = |part: &str, role| claims.take_companion(&format!("{module}.{part}"), role);
        Self {
            codes,
            scale: companion("weight_scale", TensorRole::Scale),
            zero_point: companion("weight_zero_point", TensorRole::ZeroPoint),
            shape: companion("weight_shape", TensorRole::QuantState),
            g_idx: companion("weight_g_idx", TensorRole::GroupIndex),
            global_scale: companion("weight_global_scale", TensorRole::Scale),
            scale_packed: companion("scale_packed", TensorRole::Scale),
            meta: companion("meta", TensorRole::QuantState),
        }
    }

    /// The name of its module.
    pub(super) fn module<'a>(&self, claims: &Claims<'a>) -> &'a str {
        let name = claims.catalog.get(self.codes).name.as_str();
        name.strip_suffix(PACKED).or_else(|| name.strip_suffix(WEIGHT)).unwrap_or(name)
    }

    /// The name of the decoded weight.
    pub(super) fn output_name(&self, claims: &Claims<'_>) -> String {
        format!("{}{WEIGHT}", self.module(claims))
    }

    /// A companion that must be present; `end` names it in the error.
    pub(super) fn needed<'a>(
        &self,
        claims: &Claims<'a>,
        id: Option<TensorId>,
        end: &str,
    ) -> Result<(TensorId, &'a StoredTensor)> {
        let found = id.map(|id| (id, claims.catalog.get(id)));
        found.ok_or_else(|| {
            let name = format!("{}.{end}", self.module(claims));
            claims.missing(&name)
        })
    }

    /// Refuses companions that a format does not have.
    pub(super) fn refuse(&self, claims: &Claims<'_>, format: &str, others: &[Option<TensorId>]) -> Result<()> {
        match others.iter().flatten().next() {
            None => Ok(()),
            Some(&id) => {
                let name = quoted(&claims.catalog.get(id).name);
                Err(AnamnesisError::parse(format!("it has the companion {name}, which {format} weights do not have")))
            }
        }
    }
}
