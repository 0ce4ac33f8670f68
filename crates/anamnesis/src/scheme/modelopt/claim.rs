//! Claiming ModelOpt's four-bit weights.

use super::algorithm::Algorithm;
use super::naming::{Names, PART_NAMES};
use super::parts::Parts;
use super::weight::weight;
use crate::catalog::{Dtype, StoredTensor};
use crate::scheme::claim::{About, Claims, PartName, Scheme};

/// ModelOpt's scheme.
pub(crate) struct ModelOpt;

impl Scheme for ModelOpt {
    fn about(&self) -> About {
        About::Decoded("ModelOpt", "NVFP4 and MXFP4, stacks of experts in either direction; W4A16_AWQ")
    }

    fn part_names(&self) -> Vec<PartName> {
        PART_NAMES.to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
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

/// Whether a tensor of bytes has a companion that only ModelOpt writes, or a scale and a configuration of ModelOpt.
fn is_weight(claims: &Claims<'_>, tensor: &StoredTensor) -> bool {
    if tensor.dtype != Dtype::U8 {
        return false;
    }
    let names = Names::of(&tensor.name);
    let find = |name: &str| claims.find_unclaimed(name).map(|id| claims.catalog.get(id));
    let scale = find(&names.scale);
    if scale.is_some_and(|scale| scale.dtype == Dtype::F8E4M3) || find(&names.global_scale).is_some() {
        return true;
    }
    let config = claims.config;
    let configured = || Algorithm::configured(config, &config.module(&names.module));
    let is_modelopt = || config.method().is_some_and(|method| method.starts_with("modelopt"));
    scale.is_some() && (is_modelopt() || matches!(configured(), Ok(Some(_))))
}
