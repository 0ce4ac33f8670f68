//! MiniMax M1, M2 and M3.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static M2: Architecture = Architecture {
    name: "minimax-m2",
    classes: &[class("MiniMaxM2ForCausalLM", "minimax_m2")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, WHOLE_QK_NORMS, MIXTURE, M2_CORRECTION],
    keys: &[COMMON, M2_KEYS],
    tokenizer: TOKENS,
    ..PLAIN
};

const TOKENS: TokenizerRules = TokenizerRules { pre: &[(PreTokenizer::Gpt4o, "minimax-m2")], ..BPE };

/// Norms over all queries and all keys.
const WHOLE_QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[Q_DIM]).when(OPTIONAL),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[KV_DIM]).when(OPTIONAL),
];

const M2_CORRECTION: &[Rule] =
    &[layer("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE)];

const M2_KEYS: &[Key] =
    &[count("expert_feed_forward_length", &["intermediate_size"]), count_fn("rope.dimension_count", rotated)];

/// The dimensions that RoPE rotates: `rotary_dim`, or the share of a head that newer configurations have.
fn rotated(config: &Config) -> Result<Option<u64>> {
    if let Some(dimensions) = config.count(&["rotary_dim"])? {
        return Ok(Some(dimensions));
    }
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((config.head_size()? as f64 * part) as u64))
}
