//! Claiming GPTQ weights.

use super::description::GptqDescription;
use super::weight::gptq_weight;
use crate::catalog::TensorId;
use crate::scheme::claim::{About, Claims, PartName, Scheme};
use crate::scheme::packed::{AutoRoundPacking, PART_NAMES, Parts, auto_round_packing};

/// The GPTQ scheme.
pub(crate) struct Gptq;

impl Scheme for Gptq {
    fn about(&self) -> About {
        About::Decoded("GPTQ", "2 to 8 bits, activation order, v1, v2 and planar, AutoRound's packings")
    }

    fn part_names(&self) -> Vec<PartName> {
        PART_NAMES.to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let configured = configured_along_inputs(claims);
        let mut weights = Parts::candidates(claims);
        weights.retain(|&id| configured.unwrap_or_else(|| is_packed_along_inputs(claims, id)));
        let has_indices = claims.unclaimed().any(|(_, tensor)| tensor.name.ends_with(".g_idx"));
        for id in weights {
            claim_weight(claims, id, has_indices);
        }
    }
}

/// Whether codes are packed along the inputs by the method that the configuration names, which takes precedence over
/// the shapes; `None` if it names none.
fn configured_along_inputs(claims: &Claims<'_>) -> Option<bool> {
    match claims.config.method() {
        Some("gptq" | "gptq_marlin") => Some(true),
        Some("awq" | "awq_marlin") => Some(false),
        _ => match auto_round_packing(claims.config, &claims.config.args()) {
            Ok(packing) => packing.map(|packing| packing != AutoRoundPacking::Awq),
            // The error is reported for each weight.
            Err(_) => Some(true),
        },
    }
}

/// Whether codes are packed along the inputs by their shape: then codes and scales have the same number of columns.
fn is_packed_along_inputs(claims: &Claims<'_>, qweight: TensorId) -> bool {
    let tensor = claims.catalog.get(qweight);
    let scales = tensor.name.strip_suffix("qweight").and_then(|module| claims.catalog.find(&format!("{module}scales")));
    scales.is_some_and(|id| claims.catalog.get(id).shape.last() == tensor.shape.last())
}

/// Claims a weight; `has_indices` if any weight of this checkpoint has a group index.
fn claim_weight(claims: &mut Claims<'_>, qweight: TensorId, has_indices: bool) {
    let parts = Parts::take(claims, qweight);
    let module = claims.config.module(parts.module(claims));
    let weight = GptqDescription::read(claims, &module)
        .map_err(|error| error.in_tensor(&claims.catalog.get(qweight).name))
        .and_then(|description| gptq_weight(claims, &parts, &description, has_indices));
    match weight {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}
