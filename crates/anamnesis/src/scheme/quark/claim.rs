//! Claiming the weights of Quark.

use super::parts::Parts;
use super::spec::QuarkSpec;
use super::{integers, mxfp4};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme, Weight};

/// Quark's scheme.
pub(crate) struct Quark;

const METHOD: &str = "quark";

impl Scheme for Quark {
    fn about(&self) -> About {
        About::Decoded("Quark", "MXFP4, uint4 and int4 in groups, int8; FP8 as below")
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![PartName::new(".weight_zero_point", ".weight", Confidence::Certain)]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        if claims.config.method() != Some(METHOD) {
            return;
        }
        refuse_other_floats(claims);
        let weights: Vec<_> =
            claims.unclaimed().filter(|(_, tensor)| is_weight(claims, tensor)).map(|(id, _)| id).collect();
        for id in weights {
            let parts = Parts::take(claims, id);
            match weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
            }
        }
    }
}

/// Refuses eight-bit floats of a format that no description has. The others are claimed by FP8.
fn refuse_other_floats(claims: &mut Claims<'_>) {
    let Ok(specs) = QuarkSpec::all(claims.config) else { return };
    let is_other = |tensor: &StoredTensor| {
        let name = match tensor.dtype {
            Dtype::F8E4M3 => "fp8_e4m3",
            Dtype::F8E5M2 => "fp8_e5m2",
            Dtype::F8E4M3Fnuz => "fp8_e4m3fnuz",
            Dtype::F8E5M2Fnuz => "fp8_e5m2fnuz",
            _ => return false,
        };
        !specs.is_empty() && specs.iter().all(|spec| spec.dtype != name)
    };
    let others: Vec<_> = claims.unclaimed().filter(|(_, tensor)| is_other(tensor)).collect();
    for (id, tensor) in others {
        let configured: Vec<_> =
            specs.iter().map(|spec| format!("{} is {}", spec.place(), quoted(spec.dtype))).collect();
        let what = format!("tensor {} is {}, and {}", quoted(&tensor.name), tensor.dtype, configured.join(", "));
        Parts::take(claims, id);
        claims.refuse(AnamnesisError::parse(what));
    }
}

/// Whether a tensor has the type and name of codes, and a companion here or in another file.
fn is_weight(claims: &Claims<'_>, tensor: &StoredTensor) -> bool {
    let is_codes = matches!(tensor.dtype, Dtype::U8 | Dtype::I8 | Dtype::I32 | Dtype::U32);
    is_codes && tensor.name.ends_with(".weight") && {
        let mut names = ["scale", "zero_point"].into_iter().map(|part| format!("{}_{part}", tensor.name));
        names.any(|name| claims.catalog.find(&name).is_some() || claims.elsewhere(&name).is_some())
    }
}

fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let module = claims.config.module(codes.name.trim_end_matches(".weight"));
    if let Some(left) = module.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed, but {left}")));
    }
    let specs = QuarkSpec::all(claims.config)?;
    match codes.dtype {
        Dtype::U8 => mxfp4::weight(claims, parts, &specs),
        Dtype::I8 => integers::bytes(claims, parts, &specs),
        _ => integers::words(claims, parts, &specs),
    }
}
