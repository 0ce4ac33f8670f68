//! Claiming SINQ weights by their codes and second scales.

use super::parts::{CODES, COMPANIONS, METHOD, Parts, SECOND_SCALE};
use super::weight::weight;
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme};

/// The SINQ scheme.
pub(crate) struct Sinq;

impl Scheme for Sinq {
    fn about(&self) -> About {
        About::Decoded("SINQ", "1 to 6 and 8 bits, groups of rows or tiles, nf4 and nf3; with its sidecar")
    }

    fn part_names(&self) -> Vec<PartName> {
        COMPANIONS.map(|suffix| PartName::new(suffix, CODES, Confidence::Certain)).to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let is_named = claims.config.method().is_some_and(|method| method.eq_ignore_ascii_case(METHOD));
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let Some(module) = tensor.name.strip_suffix(CODES) else { return false };
            let scale = format!("{module}{SECOND_SCALE}");
            is_named || claims.catalog.find(&scale).is_some() || claims.elsewhere(&scale).is_some()
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        for id in codes {
            let parts = Parts::take(claims, id);
            match weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
            }
        }
    }
}
