//! The types of tensors in a GGUF file: the requested one, or F32 where llama.cpp needs it.

use crate::catalog::{Dtype, TargetDtype};

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
const SMALL: [&str; 20] = [
    "ffn_gate_inp",
    "ffn_gate_inp_shexp",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "ssm_conv1d_q",
    "ssm_conv1d_k",
    "ssm_conv1d_v",
    "shortconv.conv",
    "indexer.proj",
    "time_mix_first",
    "time_mix_w1",
    "time_mix_w2",
    "time_mix_decay_w1",
    "time_mix_decay_w2",
    "time_mix_lerp_fused",
    "norm1",
    "norm2",
    "altup_correct_coef",
    "altup_predict_coef",
];

/// Ends of the names of an adapter's factors.
const FACTORS: [&str; 2] = [".lora_a", ".lora_b"];

/// Which tensors are F32 whatever type is requested, for an architecture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeRules {
    /// Whether small matrices have the requested type too.
    all_matrices: bool,
    /// Parts of the names of further tensors that stay F32; `^` marks the start of a name.
    f32: &'static [&'static str],
    /// Parts of the names of tensors that are F16 whatever type is requested.
    f16: &'static [&'static str],
    /// Parts of the names of tensors that are F16 if that is requested, and otherwise F32.
    f16_or_f32: &'static [&'static str],
    /// Whether matrices keep the type they are stored in, and those of FP8 become Q8_0.
    as_stored: bool,
    /// Tensors that are tables of integers, by the ends of their names.
    tables: &'static [(&'static str, IntegerTable)],
}

/// A tensor of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IntegerTable {
    /// Integers of 32 bits.
    I32,
    /// Differences from the index, which become ids of tokens, in 64 bits.
    TokenIds,
}

impl IntegerTable {
    pub(crate) const fn dtype(self) -> Dtype {
        match self {
            Self::I32 => Dtype::I32,
            Self::TokenIds => Dtype::I64,
        }
    }

    /// Whether it comes before all other tensors; otherwise it comes after them.
    pub(crate) const fn is_first(self) -> bool {
        matches!(self, Self::I32)
    }
}

impl TypeRules {
    pub(crate) const USUAL: Self =
        Self { all_matrices: false, f32: &[], f16: &[], f16_or_f32: &[], as_stored: false, tables: &[] };
    /// Matrices keep the type they are stored in.
    pub(crate) const AS_STORED: Self = Self { as_stored: true, ..Self::USUAL };
    pub(crate) const ALL_MATRICES: Self = Self { all_matrices: true, ..Self::USUAL };
    /// Those of projectors.
    pub(crate) const PROJECTOR: Self =
        Self { f16_or_f32: &[".patch_embd.weight", ".patch_merger.weight"], ..Self::USUAL };

    /// The usual types, but F32 for tensors with one of these texts in their names.
    pub(crate) const fn with_f32(f32: &'static [&'static str]) -> Self {
        Self { f32, ..Self::USUAL }
    }

    /// The same with tables of integers.
    pub(crate) const fn and_tables(self, tables: &'static [(&'static str, IntegerTable)]) -> Self {
        Self { tables, ..self }
    }

    /// The kind of a tensor that is a table of integers.
    pub(crate) fn table(self, name: &str) -> Option<IntegerTable> {
        let is_end = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        self.tables.iter().find(|(end, _)| is_end(end)).map(|(_, kind)| *kind)
    }

    /// Whether matrices keep the type they are stored in.
    pub(crate) const fn are_as_stored(self) -> bool {
        self.as_stored
    }

    /// The same with F32 for further parts of names.
    pub(crate) const fn and_f32(self, f32: &'static [&'static str]) -> Self {
        Self { f32, ..self }
    }

    /// The same with F16 for parts of names.
    pub(crate) const fn and_f16(self, f16: &'static [&'static str]) -> Self {
        Self { f16, ..self }
    }

    /// The same with F16 or F32 for parts of names.
    pub(crate) const fn and_f16_or_f32(self, f16_or_f32: &'static [&'static str]) -> Self {
        Self { f16_or_f32, ..self }
    }

    /// The type of a tensor that does not depend on the requested one, except for that being F16.
    pub(crate) fn fixed(self, name: &str, rank: usize, weights: Weights) -> Option<TargetDtype> {
        self.forced(name, rank, weights).or_else(|| self.stays_f32(name, rank).then_some(TargetDtype::F32))
    }

    /// The type that the architecture gives a tensor, or F32 for vectors and norms.
    pub(crate) fn forced(self, name: &str, rank: usize, weights: Weights) -> Option<TargetDtype> {
        let is_in = |part: &&str| match part.strip_prefix('^') {
            Some(start) => name.starts_with(start),
            None => name.contains(part),
        };
        let has = |parts: &[&str]| rank > 1 && parts.iter().any(is_in);
        match weights {
            _ if has(self.f32) => Some(TargetDtype::F32),
            _ if has(self.f16) => Some(TargetDtype::F16),
            Weights::Plain(TargetDtype::F16) if has(self.f16_or_f32) => Some(TargetDtype::F16),
            _ if has(self.f16_or_f32) || is_vector_or_norm(name, rank) => Some(TargetDtype::F32),
            _ => None,
        }
    }

    /// Whether a tensor is F32 whatever type is requested.
    pub(crate) fn stays_f32(self, name: &str, rank: usize) -> bool {
        if is_vector_or_norm(name, rank) || self.f32.iter().any(|part| name.contains(part)) {
            return true;
        }
        if self.all_matrices {
            return false;
        }
        if FACTORS.iter().any(|ending| name.ends_with(ending)) {
            return false;
        }
        let Some(module) = name.strip_suffix(".weight") else { return true };
        SMALL.iter().any(|small| module == *small || module.ends_with(&format!(".{small}")))
    }
}

fn is_vector_or_norm(name: &str, rank: usize) -> bool {
    rank < 2 || name.ends_with("_norm.weight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_biases_and_routers_stay_f32() {
        for name in ["blk.0.attn_q.bias", "blk.0.ssm_a", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight"] {
            assert!(TypeRules::USUAL.stays_f32(name, 2), "{name}");
        }
        let usual = TypeRules::USUAL;
        assert!(!usual.stays_f32("blk.0.attn_q.weight", 2) && usual.stays_f32("blk.0.attn_q.weight", 1));
    }
}
