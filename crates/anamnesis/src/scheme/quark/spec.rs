//! What a configuration of Quark says about weights.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, QuantConfig};

/// A description of weights, for all or for some layers.
pub(super) struct QuarkSpec<'a> {
    args: Args<'a>,
    pub dtype: &'a str,
}

impl<'a> QuarkSpec<'a> {
    /// Everything that is said about weights. Which layers a description is for, the stored types tell.
    pub(super) fn all(config: &'a QuantConfig) -> Result<Vec<Self>> {
        let args = config.args();
        let mut layers = vec![args.inside("global_quant_config")];
        layers.extend(
            ["layer_quant_config", "layer_type_quant_config"].into_iter().flat_map(|key| args.inside_each(key)),
        );
        let mut told = Vec::new();
        for layer in layers {
            let weight = layer.inside("weight");
            if let Some(dtype) = weight.text(&["dtype"])? {
                told.push(Self { args: weight, dtype });
            }
        }
        Ok(told)
    }

    /// Where it stands.
    pub(super) fn place(&self) -> String {
        self.args.place_of(&["dtype"]).unwrap_or_default()
    }

    /// Refuses another text than this one, where one is said.
    pub(super) fn needs(&self, key: &'static str, needed: &str) -> Result<()> {
        match self.args.text(&[key])?.filter(|&said| said != needed) {
            None => Ok(()),
            Some(said) => {
                let place = self.args.place_of(&[key]).unwrap_or_default();
                Err(AnamnesisError::unsupported("Quark", format!("{place} is {}; {needed} is read", quoted(said))))
            }
        }
    }

    /// Refuses scales along another axis, where one is said.
    pub(super) fn needs_axis(&self, allowed: &[i64]) -> Result<()> {
        match self.args.integer(&["ch_axis"])?.filter(|said| !allowed.contains(&said.value)) {
            None => Ok(()),
            Some(said) => {
                let what = format!(
                    "{} is {}; one of {allowed:?} is read",
                    self.args.place_of(&["ch_axis"]).unwrap_or_default(),
                    said.value
                );
                Err(AnamnesisError::unsupported("Quark", what))
            }
        }
    }

    /// Codes under one scale, where that is said.
    pub(super) fn group_size(&self) -> Result<Option<i64>> {
        Ok(self.args.integer(&["group_size"])?.map(|said| said.value))
    }
}

/// The only description of one of these types; `None` where nothing is said of weights at all.
pub(super) fn only<'a, 't>(told: &'t [QuarkSpec<'a>], dtypes: &[&str]) -> Result<Option<&'t QuarkSpec<'a>>> {
    let mut fitting = told.iter().filter(|told| dtypes.contains(&told.dtype));
    match (fitting.next(), fitting.next()) {
        (None, _) if told.is_empty() => Ok(None),
        (None, _) => {
            let said =
                told.iter().map(|told| format!("{} is {}", told.place(), quoted(told.dtype))).collect::<Vec<_>>();
            Err(AnamnesisError::parse(format!("{}; {} is stored", said.join(", "), dtypes.join(" or "))))
        }
        (Some(only), None) => Ok(Some(only)),
        (Some(first), Some(other)) => {
            let (a, b) = (first.place(), other.place());
            Err(AnamnesisError::parse(format!("{a} and {b} both describe such weights, and it is open which")))
        }
    }
}
