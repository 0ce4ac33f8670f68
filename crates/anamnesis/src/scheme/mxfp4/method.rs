//! Checking that the configuration allows MXFP4.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::ModuleConfig;
use crate::scheme::claim::Claims;

/// Refuses a module that the configuration excludes, or a configuration whose method is not one of `methods`.
pub(super) fn check_method(claims: &Claims<'_>, module: &ModuleConfig<'_>, methods: &[&str]) -> Result<()> {
    if let Some(left) = module.exclusion() {
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
