//! The stored tensors of a packed weight: `X.qweight` and its companions.

use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

/// The names of the parts of a packed weight.
pub(crate) const PART_NAMES: [PartName; 4] = [
    PartName::new(".qweight", ".qweight", Confidence::Certain),
    PartName::new(".qzeros", ".qweight", Confidence::Certain),
    PartName::new(".g_idx", ".qweight", Confidence::Certain),
    PartName::new(".scales", ".qweight", Confidence::IfConfigured),
];

/// The codes of a weight, and the companions that are present.
pub(crate) struct Parts {
    pub qweight: TensorId,
    pub qzeros: Option<TensorId>,
    pub scales: Option<TensorId>,
    pub g_idx: Option<TensorId>,
}

impl Parts {
    /// Every unclaimed `.qweight` but those of EETQ, which are bytes and have their scales in `weight_scales`.
    pub(crate) fn candidates(claims: &Claims<'_>) -> Vec<TensorId> {
        // Other formats have bytes of this name, with scales of other names.
        let has_scales = |tensor: &StoredTensor| claims.catalog.find(&format!("{}scales", module(tensor))).is_some();
        let is_byte = |tensor: &StoredTensor| matches!(tensor.dtype, Dtype::I8 | Dtype::U8);
        let is_candidate =
            |tensor: &StoredTensor| tensor.name.ends_with(".qweight") && (!is_byte(tensor) || has_scales(tensor));
        claims.unclaimed().filter(|(_, tensor)| is_candidate(tensor)).map(|(id, _)| id).collect()
    }

    /// Claims the codes of a weight and the companions that are present.
    pub(crate) fn take(claims: &mut Claims<'_>, qweight: TensorId) -> Self {
        claims.take(qweight, TensorRole::Quantized);
        let module = module(claims.catalog.get(qweight));
        let mut companion = |part: &str, role| claims.take_companion(&format!("{module}{part}"), role);
        Self {
            qweight,
            qzeros: companion("qzeros", TensorRole::ZeroPoint),
            scales: companion("scales", TensorRole::Scale),
            g_idx: companion("g_idx", TensorRole::GroupIndex),
        }
    }

    /// Zero points and scales, which must both be present; codes and zero points must be 32-bit words.
    pub(crate) fn needed(&self, claims: &Claims<'_>) -> Result<(TensorId, TensorId)> {
        let weight = claims.catalog.get(self.qweight);
        let words = [Some(self.qweight), self.qzeros].into_iter().flatten().map(|id| claims.catalog.get(id));
        if let Some(part) = words.into_iter().find(|part| !matches!(part.dtype, Dtype::I32 | Dtype::U32)) {
            return Err(AnamnesisError::parse(format!(
                "tensor {}: {} is {}; I32 is needed",
                quoted(&weight.name),
                quoted(&part.name),
                part.dtype
            )));
        }
        let missing = |part: &str| {
            let companion = format!("{}{part}", module(weight));
            let place = claims.elsewhere(&companion).map_or_else(String::new, |place| format!(": {place}"));
            AnamnesisError::parse(format!("tensor {} has no {}{place}", quoted(&weight.name), quoted(&companion)))
        };
        let qzeros = self.qzeros.ok_or_else(|| missing("qzeros"))?;
        Ok((qzeros, self.scales.ok_or_else(|| missing("scales"))?))
    }

    /// The name of its module.
    pub(crate) fn module<'a>(&self, claims: &Claims<'a>) -> &'a str {
        module(claims.catalog.get(self.qweight)).trim_end_matches('.')
    }

    /// The name of the decoded weight.
    pub(crate) fn output_name(&self, claims: &Claims<'_>) -> String {
        format!("{}weight", module(claims.catalog.get(self.qweight)))
    }
}

/// The name of the module, with its trailing dot.
fn module(qweight: &StoredTensor) -> &str {
    qweight.name.strip_suffix("qweight").unwrap_or(&qweight.name)
}
