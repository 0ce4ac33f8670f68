//! The type of codes and the rule of scales, from the configuration.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::ModuleConfig;

/// The type of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Codes {
    Nvfp4,
    Mxfp4,
    /// Blocks of floats or of integers.
    If4,
    Nvint4,
}

/// The description of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub codes: Codes,
    /// The divisor of the products, for all types but MXFP4.
    pub divisor: u16,
}

impl Codes {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::If4 => "if4",
            Self::Nvint4 => "nvint4",
        }
    }

    /// The values that share a scale.
    pub(super) const fn group(self) -> u64 {
        match self {
            Self::Mxfp4 => 32,
            _ => 16,
        }
    }

    /// Whether scales are in tiles.
    pub(super) const fn is_swizzled(self) -> bool {
        matches!(self, Self::Nvfp4 | Self::Mxfp4)
    }
}

impl Spec {
    /// Reads the options of a module; those of `module_config_overrides` take precedence.
    pub(super) fn of(config: &ModuleConfig<'_>, module: &str) -> Result<Self> {
        let args = config.args();
        let overrides = args.inside("module_config_overrides").inside(module);
        let text = |keys: &[&'static str]| match overrides.text(keys)? {
            Some(text) => Ok(Some(text.to_owned())),
            None => args.text(keys).map(|text| text.map(str::to_owned)),
        };
        let unsupported = |detail: String| Err(AnamnesisError::unsupported("Four Over Six", detail));
        let codes = match text(&["weight_dtype", "dtype"])?.as_deref() {
            Some("nvfp4") => Codes::Nvfp4,
            Some("mxfp4") => Codes::Mxfp4,
            Some("if4") => Codes::If4,
            Some("nvint4") => Codes::Nvint4,
            Some(other) => return unsupported(format!("the configuration says dtype {}", quoted(other))),
            None => return unsupported("no configuration says the type of its codes".to_owned()),
        };
        let (is_static, is_four) = match text(&["weight_scale_rule", "scale_rule"])?.as_deref() {
            Some("static_4") => (true, true),
            Some("static_6") => (true, false),
            Some("mse" | "mae" | "abs_max") => (false, false),
            Some(other) => return unsupported(format!("the configuration says scale_rule {}", quoted(other))),
            None => return unsupported("no configuration says the rule of its scales".to_owned()),
        };
        let top = match codes {
            _ if is_four => 4,
            Codes::Nvint4 => 7,
            _ => 6,
        };
        let range = if is_static || codes == Codes::If4 { 448 } else { 256 };
        Ok(Self { codes, divisor: top * range })
    }
}
