//! The types of tensors in a GGUF file: the requested one, or F32 where llama.cpp needs it.

use crate::catalog::TargetDtype;

/// The type of most weights of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Weights {
    Plain(TargetDtype),
    /// Q8_0 blocks; F16 for rows that do not divide into blocks.
    Q8_0,
}

impl Weights {
    /// `general.file_type`.
    pub(crate) const fn file_type(self) -> u32 {
        match self {
            Self::Plain(TargetDtype::F32) => 0,
            Self::Plain(TargetDtype::F16) => 1,
            Self::Plain(TargetDtype::BF16) => 32,
            Self::Q8_0 => 7,
        }
    }
}

/// Ends of the names, before `.weight`, of tensors that stay F32.
const SMALL: [&str; 7] = [
    "ffn_gate_inp",
    "ffn_gate_inp_shexp",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "indexer.proj",
];

/// Whether a tensor is F32 whatever type is requested.
pub(crate) fn stays_f32(name: &str, rank: usize) -> bool {
    if rank < 2 || name.ends_with("_norm.weight") {
        return true;
    }
    let Some(module) = name.strip_suffix(".weight") else { return true };
    SMALL.iter().any(|small| module == *small || module.ends_with(&format!(".{small}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_biases_and_routers_stay_f32() {
        for name in ["blk.0.attn_q.bias", "blk.0.ssm_a", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight"] {
            assert!(stays_f32(name, 2), "{name}");
        }
        assert!(!stays_f32("blk.0.attn_q.weight", 2) && stays_f32("blk.0.attn_q.weight", 1));
    }
}
