//! The coding of a quantised weight, as data for reports.

use std::fmt;

/// The format of a quantised weight's codes, and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Coding {
    /// The variant of the scheme: `E4M3`, `gptq_v2`, `gemm`, `NF4`, `Q4_K`.
    pub format: String,
    /// Bits per code; for ggml types, the number in their name.
    pub bits: Option<u8>,
    /// How many consecutive values share a scale, or are in one ggml block; `None` if scales are not arranged in
    /// groups, or if the size is not known yet.
    pub group_size: Option<u64>,
    /// Rows and columns that share a scale, if a matrix is scaled in blocks.
    pub block_shape: Option<(u64, u64)>,
    /// Whether codes are symmetric around zero; `None` if unknown.
    pub symmetric: Option<bool>,
    /// How the format was determined.
    pub evidence: Evidence,
}

/// The evidence for how a weight is quantised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Evidence {
    /// The names, types and shapes of its stored tensors.
    #[default]
    Names,
    /// The type of its stored tensor.
    Type,
    /// A configuration: the file and the path of keys in it.
    Configuration(String),
    /// A key of the file's metadata.
    Metadata(String),
    /// The operation of the file's graph that reads it.
    Operation(String),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names => f.write_str("names, types and shapes"),
            Self::Type => f.write_str("types"),
            Self::Configuration(place) => f.write_str(place),
            Self::Metadata(key) => write!(f, "__metadata__: {key}"),
            Self::Operation(kind) => write!(f, "operator {kind}"),
        }
    }
}
