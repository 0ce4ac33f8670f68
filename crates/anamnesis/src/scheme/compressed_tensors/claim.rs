//! Claiming the weights of compressed-tensors.

use super::fp4::fp4_weight;
use super::fp6::fp6_weight;
use super::int8::byte_weight;
use super::marlin24::{self, sparse_weight};
use super::pack::packed_weight;
use super::parts::{self, PACKED, Parts, WEIGHT};
use super::spec::Spec;
use super::{METHOD, activations, sparse};
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result};
use crate::scheme::claim::{About, Claims, PartName, Scheme, Weight};

/// The formats of compressed-tensors, except those of eight-bit floats.
pub(crate) struct CompressedTensors;

impl Scheme for CompressedTensors {
    fn about(&self) -> About {
        About::Decoded(
            METHOD,
            "pack-quantized of 1 to 8 bits, int-quantized, NVFP4, MXFP4, MXFP6, marlin-24, sparse with a mask",
        )
    }

    fn part_names(&self) -> Vec<PartName> {
        let sparse = sparse::PART_NAMES;
        parts::PART_NAMES.into_iter().chain(sparse).chain(activations::part_names()).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let packed: Vec<_> =
            claims.unclaimed().filter(|(_, tensor)| tensor.name.ends_with(PACKED)).map(|(id, _)| id).collect();
        for id in packed {
            claim_weight(claims, id, PACKED);
        }
        for id in byte_weights(claims) {
            claim_weight(claims, id, WEIGHT);
        }
        sparse::claim(claims);
        activations::consume(claims);
    }
}

/// I8 weights with a scale, if the configuration names this library: others use the same names for other layouts.
fn byte_weights(claims: &Claims<'_>) -> Vec<TensorId> {
    if claims.config.method() != Some(METHOD) {
        return Vec::new();
    }
    let has_scale = |name: &str| {
        let module = name.strip_suffix(WEIGHT)?;
        claims.find_unclaimed(&format!("{module}.weight_scale"))
    };
    let bytes = claims.unclaimed().filter(|(_, tensor)| tensor.dtype == Dtype::I8 && has_scale(&tensor.name).is_some());
    bytes.map(|(id, _)| id).collect()
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId, suffix: &str) {
    let parts = Parts::take(claims, codes, suffix);
    match weight(claims, &parts) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(codes).name)),
    }
}

fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let module = claims.config.module(parts.module(claims));
    if let Some(left) = module.exclusion().filter(|left| left.is_rule) {
        return Err(AnamnesisError::parse(format!("it is packed, but {left}")));
    }
    let specs = Spec::of_module(claims.config, &module)?;
    let is_packed = codes.name.ends_with(PACKED);
    let is_sparse = |spec: Option<&Spec>| spec.is_some_and(|spec| spec.format.as_deref() == Some(marlin24::FORMAT));
    let decoded = |spec: Option<&Spec>| match (codes.dtype, spec) {
        (Dtype::U8, Some(spec)) if is_packed && spec.bits == 6 => fp6_weight(claims, parts, spec),
        (Dtype::U8, spec) if is_packed => fp4_weight(claims, parts, spec),
        (Dtype::I32, Some(spec)) if is_packed && is_sparse(Some(spec)) => sparse_weight(claims, parts, spec),
        (Dtype::I32, Some(spec)) if is_packed => packed_weight(claims, parts, spec),
        (Dtype::I8, Some(spec)) if !is_packed => byte_weight(claims, parts, spec),
        (Dtype::I32 | Dtype::I8, _) => {
            let detail = "no configuration says how many bits its codes have, and which values share a scale";
            Err(AnamnesisError::unsupported("compressed-tensors pack-quantized", detail))
        }
        (dtype, _) => Err(AnamnesisError::parse(format!("it is {dtype}; codes are I32 or U8"))),
    };
    if !specs.iter().any(|spec| is_sparse(Some(spec))) {
        parts.refuse(claims, "dense", &[parts.scale_packed, parts.meta])?;
    }
    if specs.is_empty() {
        return decoded(None);
    }
    let mut fitting = Vec::new();
    let mut problem = None;
    for spec in &specs {
        match decoded(Some(spec)) {
            Ok(weight) => fitting.push((spec, weight)),
            Err(error) => drop(problem.get_or_insert(error)),
        }
    }
    match (fitting.len(), fitting.pop(), problem) {
        (1, Some((_, weight)), _) => Ok(weight),
        (0, _, Some(problem)) => Err(problem),
        (_, last, _) => {
            let places = fitting.iter().chain(&last).map(|(spec, _)| spec.place.as_str()).collect::<Vec<_>>();
            Err(AnamnesisError::parse(format!("{} may all apply to it, and fit its tensors", places.join(" and "))))
        }
    }
}
