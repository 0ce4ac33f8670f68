//! The ways of quantising that compressed-tensors has names for.

use super::spec::Strategy;
use crate::error::{Request, Result};
use crate::scheme::quantise::{GroupSize, QuantiseOptions};

/// A way of quantising that the library has a name for.
pub(super) struct Preset {
    pub name: &'static str,
    pub codes: Codes,
    /// Which values share a scale where nobody says.
    pub strategy: Strategy,
    /// Whether another size of groups may be asked for.
    pub is_sizable: bool,
    /// Whether activations are quantised too, while the model runs.
    pub activations: bool,
}

/// What codes are, and how they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codes {
    /// E4M3.
    Float,
    /// Eight bits, a byte each.
    Int8,
    /// Packed in words.
    Packed {
        bits: u8,
        symmetric: bool,
    },
    /// E2M1 and E4M3 under powers of two, E2M1 under E4M3.
    Mxfp4,
    Mxfp8,
    Nvfp4,
}

impl Preset {
    /// Which values share a scale, as asked for.
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
