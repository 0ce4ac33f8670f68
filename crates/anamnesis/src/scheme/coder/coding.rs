//! How the numbers of a weight are coded, as data.

use std::fmt;

/// The codes of a quantised weight, and what decided that they are such.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Coding {
    /// The form of the scheme: `E4M3`, `gptq_v2`, `gemm`, `NF4`, `Q4_K`.
    pub format: String,
    /// Bits of a code; ggml's types by the number in their name.
    pub bits: Option<u8>,
    /// Values that follow each other under one scale, or in one block of ggml; `None` where something else decides, or
    /// it is not known yet.
    pub group_size: Option<u64>,
    /// Rows and columns under one scale, where scales lie over a matrix.
    pub block_shape: Option<(u64, u64)>,
    /// Whether codes stand for values around zero; `None` where that is not known.
    pub symmetric: Option<bool>,
    /// What decided.
    pub evidence: Evidence,
}

/// What decided how a weight is quantised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Evidence {
    /// Names, types and shapes of its stored tensors.
    #[default]
    Names,
    /// The type of its stored tensor.
    Type,
    /// A configuration: its file, and the keys that lead to what it says.
    Configuration(String),
    /// A key of the file's metadata.
    Metadata(String),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names => f.write_str("names, types and shapes"),
            Self::Type => f.write_str("types"),
            Self::Configuration(place) => f.write_str(place),
            Self::Metadata(key) => write!(f, "__metadata__: {key}"),
        }
    }
}
