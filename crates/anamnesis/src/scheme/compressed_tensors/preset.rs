//! Presets: the quantisations that compressed-tensors has names for, such as `W4A16`.

use super::spec::Strategy;
use crate::error::{Request, Result};
use crate::scheme::quantise::{GroupSize, QuantiseOptions};

/// A named quantisation of compressed-tensors.
pub(super) struct Preset {
    pub name: &'static str,
    pub codes: Codes,
    /// The values that share a scale by default.
    pub strategy: Strategy,
    /// Whether another group size can be requested.
    pub is_sizable: bool,
    /// Whether activations are quantised too, at run time.
    pub activations: bool,
}

/// The type of codes, and how they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codes {
    /// E4M3.
    Float,
    /// Eight bits, a byte each.
    Int8,
    /// Integers packed into 32-bit words.
    Packed { bits: u8, symmetric: bool },
    /// E2M1 with power-of-two scales.
    Mxfp4,
    /// E4M3 with power-of-two scales.
    Mxfp8,
    /// E2M1 with E4M3 scales and a global scale.
    Nvfp4,
}

impl Preset {
    /// The values that share a scale, by the caller's options.
    pub(super) fn strategy(&self, options: &QuantiseOptions) -> Result<Strategy> {
        match options.groups.size {
            None => Ok(self.strategy),
            Some(_) if !self.is_sizable => {
                let (what, why) = (format!("a group size for {}", self.name), "it has its own".to_owned());
                Err(Request::Contradiction { what, why }.into())
            }
            Some(GroupSize::Row) => Ok(Strategy::Channel),
            Some(GroupSize::Values(values)) => Ok(Strategy::Group(values.into())),
        }
    }
}
