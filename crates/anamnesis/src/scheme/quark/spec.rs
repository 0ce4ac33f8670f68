//! The descriptions of weights in a configuration of Quark.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, QuantConfig};

/// A description of the weights of all or of some layers.
pub(super) struct QuarkSpec<'a> {
    args: Args<'a>,
    pub dtype: &'a str,
}

impl<'a> QuarkSpec<'a> {
    /// All descriptions of weights. Which of them applies to a weight follows from its stored type.
    pub(super) fn all(config: &'a QuantConfig) -> Result<Vec<Self>> {
        let args = config.args();
        let mut layers = vec![args.inside("global_quant_config")];
        layers.extend(
            ["layer_quant_config", "layer_type_quant_config"].into_iter().flat_map(|key| args.inside_each(key)),
        );
        let mut specs = Vec::new();
        for layer in layers {
            let weight = layer.inside("weight");
            if let Some(dtype) = weight.text(&["dtype"])? {
                specs.push(Self { args: weight, dtype });
            }
        }
        Ok(specs)
    }

    /// Its place in the configuration.
    pub(super) fn place(&self) -> String {
        self.args.place_of(&["dtype"]).unwrap_or_default()
    }

    /// Refuses a description whose text under `key` is not `needed`.
    pub(super) fn needs(&self, key: &'static str, needed: &str) -> Result<()> {
        match self.args.text(&[key])?.filter(|&found| found != needed) {
            None => Ok(()),
            Some(found) => {
                let place = self.args.place_of(&[key]).unwrap_or_default();
                Err(AnamnesisError::unsupported("Quark", format!("{place} is {}; {needed} is read", quoted(found))))
            }
        }
    }

    /// Refuses a description whose scales are along an axis that is not `allowed`.
    pub(super) fn needs_axis(&self, allowed: &[i64]) -> Result<()> {
        match self.args.integer(&["ch_axis"])?.filter(|axis| !allowed.contains(&axis.value)) {
            None => Ok(()),
            Some(axis) => {
                let what = format!(
                    "{} is {}; one of {allowed:?} is read",
                    self.args.place_of(&["ch_axis"]).unwrap_or_default(),
                    axis.value
                );
                Err(AnamnesisError::unsupported("Quark", what))
            }
        }
    }

    /// The configured group size.
    pub(super) fn group_size(&self) -> Result<Option<i64>> {
        Ok(self.args.integer(&["group_size"])?.map(|size| size.value))
    }
}

/// The only description of one of these types; `None` if there are no descriptions at all.
pub(super) fn only<'a, 't>(specs: &'t [QuarkSpec<'a>], dtypes: &[&str]) -> Result<Option<&'t QuarkSpec<'a>>> {
    let mut fitting = specs.iter().filter(|spec| dtypes.contains(&spec.dtype));
    match (fitting.next(), fitting.next()) {
        (None, _) if specs.is_empty() => Ok(None),
        (None, _) => {
            let configured =
                specs.iter().map(|spec| format!("{} is {}", spec.place(), quoted(spec.dtype))).collect::<Vec<_>>();
            Err(AnamnesisError::parse(format!("{}; {} is stored", configured.join(", "), dtypes.join(" or "))))
        }
        (Some(only), None) => Ok(Some(only)),
        (Some(first), Some(other)) => {
            let (a, b) = (first.place(), other.place());
            Err(AnamnesisError::parse(format!("{a} and {b} both describe weights of this type, and either may apply")))
        }
    }
}
