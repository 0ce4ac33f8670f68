//! Output types of decoded weights.

use std::fmt;
use std::str::FromStr;

use super::Dtype;
use crate::error::AnamnesisError;

/// The output type of decoded weights. Plain tensors keep their type.
///
/// ```
/// use anamnesis::TargetDtype;
/// assert_eq!("BF16".parse::<TargetDtype>()?, TargetDtype::BF16);
/// assert_eq!(TargetDtype::F32.byte_size(), 4);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TargetDtype {
    /// bfloat16, rounded once to nearest even.
    #[default]
    BF16,
    /// F32, without rounding.
    F32,
    /// IEEE half precision, rounded once to nearest even; overflows become infinite.
    F16,
}

impl TargetDtype {
    /// Bytes per element.
    #[must_use]
    pub const fn byte_size(self) -> usize {
        self.dtype().byte_size()
    }

    /// The same type as a stored dtype.
    #[must_use]
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::BF16 => Dtype::BF16,
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
        }
    }
}

impl fmt::Display for TargetDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dtype().fmt(f)
    }
}

impl FromStr for TargetDtype {
    type Err = AnamnesisError;

    fn from_str(text: &str) -> Result<Self, AnamnesisError> {
        match text.to_ascii_lowercase().as_str() {
            "bf16" => Ok(Self::BF16),
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            other => Err(AnamnesisError::unsupported(other, "supported target dtypes are bf16, f16 and f32")),
        }
    }
}

/// When intermediate values are rounded during decoding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rounding {
    /// Once: computed in F32 and rounded to the output type.
    #[default]
    Once,
    /// As in the scheme's own library, often after every operation to the type of the scales; finally to the output
    /// type.
    AsLibrary,
}
