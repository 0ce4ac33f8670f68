//! State-space layers: the sizes and keys that the Mamba architectures share.

use super::config::Config;
use super::need::{Need, Presence};
use super::size::{Size, size};
use crate::error::{AnamnesisError, Result};

/// The bias of the convolution, which models have by default.
pub(crate) const CONV_BIAS: Need = Need::When("use_conv_bias", |config, _| match config.flag("use_conv_bias")? {
    Some(false) => Ok(Presence::Surplus),
    _ => Ok(Presence::Needed),
});

pub(crate) const KERNEL: Size =
    size(|config| Ok(config.count(CONV)?.unwrap_or(CONV_KERNEL)), "conv_kernel", "ssm.conv_kernel");

/// The width of the convolution: its configuration keys and its default.
pub(crate) const CONV: &[&str] = &["conv_kernel", "d_conv"];
pub(crate) const CONV_KERNEL: u64 = 4;

/// `context_length` of models whose context is unlimited.
pub(crate) const CONTEXT_LENGTH: u64 = 1 << 20;

/// The inner size of a state-space layer beside attention.
pub(super) fn inner(config: &Config) -> Result<u64> {
    match config.count(&["mamba_d_ssm"])? {
        Some(inner) => Ok(inner),
        None => {
            let expansion = config.real(&["mamba_expand"])?.unwrap_or(2.0);
            Ok((expansion * config.needed("hidden_size")? as f64) as u64)
        }
    }
}

/// `ssm_multipliers` of the five parts of `in_proj`, each with the row where its part ends.
pub(super) fn factors(shape: &[usize], config: &Config) -> Result<Vec<(u64, f32)>> {
    let inner = inner(config)?;
    let groups = config.needed("mamba_n_groups")?.saturating_mul(config.needed("mamba_d_state")?);
    let sizes = [inner, inner, groups, groups, config.needed("mamba_n_heads")?];
    let rows = shape.first().map_or(0, |&rows| rows as u64);
    if sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size)) != rows {
        let keys = "mamba_d_ssm, mamba_n_groups, mamba_d_state, mamba_n_heads";
        let why = format!("{rows} rows are not the parts {sizes:?} of a state-space layer ({keys})");
        return Err(AnamnesisError::parse(why));
    }
    let factors = config.reals("ssm_multipliers")?.unwrap_or_default();
    let mut end = 0;
    let part = |(index, size): (usize, u64)| {
        end += size;
        (end, factors.get(index).map_or(1.0, |factor| *factor as f32))
    };
    Ok(sizes.into_iter().enumerate().map(part).collect())
}
