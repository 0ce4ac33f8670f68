//! The fields that families of architectures share.

use super::kind::{Architecture, Head, RESTORE_NOTE};
use super::latent::{LATENT_ATTENTION, LATENT_KEYS};
use super::prelude::*;

/// The fields of decoders whose configuration is restored by the tables alone, or with defaults.
pub(crate) const PLAINLY_RESTORED: Architecture =
    Architecture { restore: Some(restore::plain), restore_note: Some(RESTORE_NOTE), ..DECODER };

/// Architectures like Llama: query and key rows are permuted for RoPE.
pub(crate) const LLAMA: Architecture = Architecture {
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED],
    keys: &[COMMON, VOCABULARY_AND_ROPE],
    derived_tensors: ROPE_FREQS,
    tokenizer: LLAMA_LIKE,
    ..PLAINLY_RESTORED
};

/// Architectures like Qwen 2: biases of `q_proj`, `k_proj` and `v_proj`.
pub(crate) const QWEN2: Architecture = Architecture {
    rules: &[EMBED_NORM_HEAD, NORMS, QKV_BIASES, GATED_FFN],
    tokenizer: PIECES_OR_BPE,
    ..PLAINLY_RESTORED
};

/// `q_proj`, `k_proj` and `v_proj` always have biases.
const QKV_BIASES: &[Rule] = &attention(Need::Always, Need::Never);

/// Architectures like Qwen 3: norms of queries and keys.
pub(crate) const QWEN3: Architecture = Architecture {
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    tokenizer: PIECES_OR_BPE,
    ..PLAINLY_RESTORED
};

/// Architectures like Qwen 3 MoE.
pub(crate) const QWEN3_MOE: Architecture = Architecture {
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, EXPERTS],
    keys: &[COMMON, EXPERT_SIZES],
    tokenizer: PIECES_OR_BPE,
    ..PLAINLY_RESTORED
};

/// Architectures like DeepSeek V3: multi-head latent attention, routed and shared experts.
pub(crate) const DEEPSEEK: Architecture = Architecture {
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, LATENT_KEYS],
    tokenizer: BPE_OR_RANKS,
    head: Head::UnlessTied,
    ..PLAINLY_RESTORED
};

/// The fields of most decoders, without a way back.
pub(crate) const PLAIN: Architecture =
    Architecture { rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN_BIASED], ..PLAINLY_RESTORED };
