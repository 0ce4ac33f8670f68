//! What part a stored tensor plays, and the names of the schemes.

use std::fmt;

use crate::catalog::Dtype;

/// The part a stored tensor plays in its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorRole {
    /// A quantised weight.
    Quantized,
    /// Scales of a quantised weight, or of its activations.
    Scale,
    /// Plain data, kept as it is.
    Passthrough,
    /// Zero points of a quantised weight.
    ZeroPoint,
    /// Which group each input channel belongs to.
    GroupIndex,
    /// The table that codes are looked up in.
    QuantMap,
    /// Scales of the scales.
    NestedScale,
    /// A description of a quantised weight.
    QuantState,
}

/// A family of quantisation schemes, by the names users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuantScheme {
    /// Eight-bit floats with a grid of scales.
    FineGrainedFp8,
    /// Eight-bit floats with a scale per row.
    PerChannelFp8,
    /// Eight-bit floats with one scale, or none.
    PerTensorFp8,
    /// Nothing is quantised.
    Unquantized,
    /// GPTQ.
    Gptq,
    /// AWQ.
    Awq,
    /// BitsAndBytes, four bits.
    Bnb4,
    /// BitsAndBytes, eight bits.
    BnbInt8,
    /// Blocks of ggml.
    Ggml,
    /// Four-bit floats with a scale for every 16 of them and one for all, as ModelOpt writes them.
    Nvfp4,
    /// Another scheme that is decoded, by its name.
    Named(&'static str),
    /// A scheme that is recognised and whose weights are not decoded, by its name.
    Refused(&'static str),
}

impl QuantScheme {
    /// What the files of this family are called where their size is shown.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::FineGrainedFp8 | Self::PerChannelFp8 | Self::PerTensorFp8 => "FP8",
            Self::Unquantized => "unquantized",
            Self::Gptq | Self::Awq => "GPTQ/AWQ",
            Self::Bnb4 => "BnB NF4/FP4",
            Self::BnbInt8 => "BnB INT8",
            Self::Ggml => "GGUF",
            Self::Nvfp4 => "NVFP4",
            Self::Named(name) | Self::Refused(name) => name,
        }
    }
}

impl fmt::Display for QuantScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FineGrainedFp8 => "Fine-grained FP8 (E4M3), 128x128 blocks",
            Self::PerChannelFp8 => "Per-channel FP8 (E4M3), one scale per row",
            Self::PerTensorFp8 => "Per-tensor FP8 (E4M3)",
            Self::Unquantized => "Unquantized",
            Self::Gptq => "GPTQ",
            Self::Awq => "AWQ",
            Self::Bnb4 => "BitsAndBytes NF4/FP4 (4-bit, per-block absmax)",
            Self::BnbInt8 => "BitsAndBytes INT8 (LLM.int8(), per-row absmax)",
            Self::Ggml => "GGUF blocks",
            Self::Named(name) => name,
            Self::Refused(name) => return f.pad(&format!("{name} (not decoded)")),
            Self::Nvfp4 => "NVIDIA NVFP4 (ModelOpt), 16-value blocks",
        })
    }
}

/// What is known of one stored tensor once everything is claimed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimedTensor {
    pub role: TensorRole,
    pub dtype: Dtype,
    pub bytes: u64,
    /// For a quantised weight: how many values it stands for; `None` where it is not decoded.
    pub values: Option<u64>,
}
