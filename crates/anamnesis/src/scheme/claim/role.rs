//! The roles of stored tensors, and the names of the schemes.

use std::fmt;

use crate::catalog::Dtype;

/// The role of a stored tensor in its checkpoint.
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
    /// The group of each input channel (`g_idx` of GPTQ).
    GroupIndex,
    /// The lookup table of a quantised weight: the value of each code.
    QuantMap,
    /// Scales of the scales.
    NestedScale,
    /// Metadata of a quantised weight, such as `quant_state` of BitsAndBytes.
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
    /// Four-bit floats with a scale per 16 values and a global scale, as ModelOpt writes them.
    Nvfp4,
    /// Another decoded scheme, by its name.
    Named(&'static str),
    /// A scheme that is recognised but not decoded, by its name.
    Refused(&'static str),
}

impl QuantScheme {
    /// The short name used in lists of file sizes.
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

/// The role and size of one stored tensor after claiming.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimedTensor {
    pub role: TensorRole,
    pub dtype: Dtype,
    pub bytes: u64,
    /// For the codes of a weight: how many values it decodes to; `None` if it is not decoded.
    pub values: Option<u64>,
}
