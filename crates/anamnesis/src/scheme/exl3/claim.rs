//! Claiming EXL3 weights by their trellises.

use super::decoder::BLOCK;
use super::weight::{CODES, Parts, has_marker, weight};
use crate::catalog::Dtype;
use crate::scheme::claim::{About, Claims, Confidence, ModelSizes, PartName, Scheme};

/// The suffixes of tensors that are padded like their weights.
const PADDED: [&str; 3] = [".suh", ".svh", ".bias"];

/// The EXL3 scheme.
pub(crate) struct Exl3;

impl Scheme for Exl3 {
    fn about(&self) -> About {
        About::Decoded("EXL3", "1 to 8 bits and 1.5, 2.5, 3.5; the codebooks 3inst, mcg and mul1")
    }

    fn part_names(&self) -> Vec<PartName> {
        let of = |suffix, confidence| PartName::new(suffix, CODES, confidence);
        vec![
            of(CODES, Confidence::IfPacked),
            of(".suh", Confidence::IfConfigured),
            of(".svh", Confidence::IfConfigured),
            of(".su", Confidence::IfPacked),
            of(".sv", Confidence::IfPacked),
            of(".mcg", Confidence::IfConfigured),
            of(".mul1", Confidence::IfConfigured),
        ]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let is_short = matches!(tensor.dtype, Dtype::I16 | Dtype::U16);
            tensor.name.ends_with(CODES) && is_short
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        if codes.is_empty() {
            return;
        }
        let sizes = ModelSizes::of(claims, BLOCK, &PADDED);
        let has_markers = codes.iter().any(|id| has_marker(claims, *id));
        for id in codes {
            let parts = Parts::take(claims, id);
            match weight(claims, &parts, &sizes, has_markers) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
            }
        }
    }
}
