//! Recognising MXFP4 weights.

use super::{gpt_oss, rows};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::ModuleConfig;
use crate::scheme::{About, Claims, PartName, Says, Scheme};

/// The MXFP4 scheme.
pub(crate) struct Mxfp4;

impl Scheme for Mxfp4 {
    fn about(&self) -> About {
        About::Decoded("MXFP4", "experts of gpt-oss and DeepSeek-V4, weights of Quark")
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![PartName::new("_blocks", "_blocks", Says::Typed), PartName::new("_scales", "_blocks", Says::Typed)]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        gpt_oss::claim(claims);
        rows::claim(claims);
    }
}

/// Refuses a module that the configuration leaves as it is, or says another method of than these.
pub(super) fn check_method(claims: &Claims<'_>, module: &ModuleConfig<'_>, methods: &[&str]) -> Result<()> {
    if let Some(left) = module.left() {
        return Err(AnamnesisError::parse(format!("it is packed in bytes, but {left}")));
    }
    match claims.config.method() {
        Some(method) if !methods.contains(&method) => Err(AnamnesisError::parse(format!(
            "it is packed as MXFP4, and {} says it is quantised by {}",
            claims.config.file(),
            quoted(method)
        ))),
        _ => Ok(()),
    }
}
