//! Claiming MXFP4 weights.

use super::{gpt_oss, rows};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme};

/// The MXFP4 scheme.
pub(crate) struct Mxfp4;

impl Scheme for Mxfp4 {
    fn about(&self) -> About {
        About::Decoded("MXFP4", "experts of gpt-oss and DeepSeek-V4")
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![
            PartName::new("_blocks", "_blocks", Confidence::IfPacked),
            PartName::new("_scales", "_blocks", Confidence::IfPacked),
        ]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        gpt_oss::claim(claims);
        rows::claim(claims);
    }
}
