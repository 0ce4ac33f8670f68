//! Recognising GPTQ weights.

use super::weight::{Evidence, gptq_weight};
use crate::catalog::TensorId;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::packed::{Parts, ZeroPoints};
use crate::scheme::{About, Claims, Scheme};

/// The GPTQ scheme.
pub(crate) struct Gptq;

impl Scheme for Gptq {
    fn about(&self) -> About {
        About::Decoded("GPTQ", "2, 3, 4 and 8 bits, activation order, v1 and v2")
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let mut weights = Parts::candidates(claims);
        weights.retain(|&id| is_packed_along_inputs(claims, id));
        if weights.is_empty() {
            return;
        }
        let evidence = read_evidence(claims);
        for id in weights {
            claim_weight(claims, id, &evidence);
        }
    }
}

/// GPTQ packs along the inputs, so codes and scales have the same number of columns. A configuration that names the method
/// decides before the shapes do.
fn is_packed_along_inputs(claims: &Claims<'_>, qweight: TensorId) -> bool {
    match claims.config.method() {
        Some("gptq") => return true,
        Some("awq") => return false,
        _ => {}
    }
    let tensor = claims.catalog.get(qweight);
    let scales = tensor.name.strip_suffix("qweight").and_then(|module| claims.catalog.find(&format!("{module}scales")));
    scales.is_some_and(|id| claims.catalog.get(id).shape.last() == tensor.shape.last())
}

/// What configuration and metadata say about all weights.
fn read_evidence(claims: &Claims<'_>) -> Result<Evidence> {
    let config = claims.config;
    let number = |key: &str| config.get(&[key]).and_then(serde_json::Value::as_i64);
    let metadata = |key: &str| claims.catalog.metadata.as_ref()?.get(key)?.as_string()?.parse::<i64>().ok();
    let is_auto_round = matches!(config.method(), Some("auto-round" | "intel/auto-round"));
    let format = config.text(&["checkpoint_format"]).or_else(|| config.text(&["format"]));
    let packing = config.text(&["packing_format"]).filter(|_| is_auto_round);
    let zeros = match (packing, format) {
        (Some("auto_round:auto_gptq" | "auto_round:gptq" | "auto_round:exllamav2"), _) => ZeroPoints::OneMore,
        (Some(other), _) => return Err(refused_format(other)),
        (None, None | Some("gptq")) => ZeroPoints::OneMore,
        (None, Some("gptq_v2")) => ZeroPoints::Stored,
        (None, Some(other)) => return Err(refused_format(other)),
    };
    if config.get(&["is_marlin_format"]).and_then(serde_json::Value::as_bool) == Some(true) {
        return Err(refused_format("marlin"));
    }
    // Overrides per module: the shapes decide there.
    let uniform = config.get(&["dynamic"]).is_none() && config.get(&["extra_config"]).is_none();
    let file = if config.is_present() { config.file() } else { "__metadata__" };
    Ok(Evidence {
        zeros,
        zeros_are_told: packing.or(format).is_some(),
        bits: number("bits").filter(|_| uniform).or_else(|| metadata("gptq_bits")),
        group_size: number("group_size").filter(|_| uniform).or_else(|| metadata("gptq_group_size")),
        file: file.to_owned(),
    })
}

fn refused_format(format: &str) -> AnamnesisError {
    AnamnesisError::unsupported(
        format,
        "GPTQ checkpoints are read in the formats gptq and gptq_v2; this one packs differently",
    )
}

fn claim_weight(claims: &mut Claims<'_>, qweight: TensorId, evidence: &Result<Evidence>) {
    let parts = Parts::take(claims, qweight);
    let weight = match evidence {
        Ok(evidence) => gptq_weight(claims, &parts, evidence),
        Err(error) => {
            let name = quoted(&claims.catalog.get(qweight).name);
            Err(match error {
                AnamnesisError::Unsupported { format, detail } => {
                    AnamnesisError::unsupported(format, format!("tensor {name}: {detail}"))
                }
                other => AnamnesisError::parse(format!("tensor {name}: {other}")),
            })
        }
    };
    match weight {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}
