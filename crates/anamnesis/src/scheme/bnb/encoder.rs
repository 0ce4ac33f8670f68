//! Making BitsAndBytes weights.

use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::TileEncoder;

/// The kinds of BitsAndBytes weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BnbKind {
    Nf4,
    Fp4,
    Int8,
}

impl BnbKind {
    /// What the number of values must be a multiple of.
    pub(crate) fn divisor(self, block_size: Option<usize>) -> u64 {
        match self {
            Self::Nf4 | Self::Fp4 => block_size.unwrap_or(64).max(1) as u64,
            Self::Int8 => 1,
        }
    }
}

/// The encoder of one weight.
pub(crate) fn encoder(
    kind: BnbKind,
    name: &str,
    shape: &[usize],
    dtype: TargetDtype,
    block_size: Option<usize>,
    double_quant: bool,
) -> Result<Box<dyn TileEncoder>> {
    let _ = (name, shape, dtype, block_size, double_quant);
    Err(AnamnesisError::unsupported(format!("{kind:?}"), "not made yet"))
}
