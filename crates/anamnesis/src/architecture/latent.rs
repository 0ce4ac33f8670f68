//! Multi-head latent attention of DeepSeek: its tensors, sizes and keys.

use crate::architecture::prelude::*;

/// The ranks and head sizes of multi-head latent attention.
pub(crate) const RANKS: &[ClassDefault] = &[
    ("q_lora_rank", Count(1536)),
    ("kv_lora_rank", Count(512)),
    ("qk_rope_head_dim", Count(64)),
    ("qk_nope_head_dim", Count(128)),
    ("v_head_dim", Count(128)),
];

/// The projections of low rank, and the keys and values that are split.
pub(crate) const LATENT_ATTENTION: &[Rule] = &[
    layer("self_attn.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]).when(LOW_RANK_Q).biased(LOW_RANK_Q_BIAS),
    layer("self_attn.q_a_layernorm.*", "attn_q_a_norm.*", &[Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.q_b_proj.*", "attn_q_b.*", &[LATENT_Q_DIM, Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.q_proj.*", "attn_q.*", &[LATENT_Q_DIM, HIDDEN]).when(FULL_RANK_Q),
    layer("self_attn.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]).biased(ATTENTION_BIAS),
    layer("self_attn.kv_a_layernorm.*", "attn_kv_a_norm.*", &[KV_RANK]),
    layer("self_attn.kv_b_proj.weight", "attn_k_b.weight", &[HEADS, KV_RANK, NOPE_DIM])
        .with(&[Change::First(Halves::KeysAndValues), Change::Transposed]),
    layer("self_attn.kv_b_proj.weight", "attn_v_b.weight", &[HEADS, V_HEAD_DIM, KV_RANK])
        .with(&[Change::Second(Halves::KeysAndValues)]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, V_DIM]).biased(ATTENTION_BIAS),
    layer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(CORRECTED),
];

/// The router's score correction bias, which V3 has.
pub(crate) const CORRECTED: Need = Need::When(
    "model_type, n_routed_experts or expert_count, first_k_dense_replace or leading_dense_block_count",
    |config, layer| {
        Ok(match (has_experts(config, layer)?, config.text("model_type")?) {
            (false, _) => Presence::Surplus,
            (true, Some("deepseek_v2" | "mistral4")) => Presence::Allowed,
            (true, _) => Presence::Needed,
        })
    },
);
/// Queries have a low rank too, in whole but the small models.
pub(crate) const LOW_RANK_Q: Need = Need::When("q_lora_rank or attention.q_lora_rank", |config, _| {
    Ok(if config.get("q_lora_rank").is_some() { Presence::Needed } else { Presence::Surplus })
});
pub(crate) const FULL_RANK_Q: Need = Need::When("q_lora_rank or attention.q_lora_rank", |config, _| {
    Ok(if config.get("q_lora_rank").is_some() { Presence::Surplus } else { Presence::Needed })
});
const LOW_RANK_Q_BIAS: Need =
    Need::When("q_lora_rank or attention.q_lora_rank", |config, _| match config.get("q_lora_rank") {
        Some(_) => flagged(config, "attention_bias"),
        None => Ok(Presence::Surplus),
    });

pub(crate) const Q_RANK: Size = size(|config| config.needed("q_lora_rank"), "q_lora_rank", "attention.q_lora_rank");
pub(crate) const KV_RANK: Size = size(|config| config.needed("kv_lora_rank"), "kv_lora_rank", "attention.kv_lora_rank");
pub(crate) const NOPE_DIM: Size = size(
    |config| config.needed("qk_nope_head_dim"),
    "qk_nope_head_dim",
    "attention.key_length_mla, rope.dimension_count",
);
pub(crate) const V_HEAD_DIM: Size =
    size(|config| config.needed("v_head_dim"), "v_head_dim", "attention.value_length_mla");
pub(crate) const LATENT_Q_DIM: Size = size(
    |config| {
        let size = config.needed("qk_nope_head_dim")?.saturating_add(config.needed("qk_rope_head_dim")?);
        Ok(config.divisor("num_attention_heads")?.saturating_mul(size))
    },
    "num_attention_heads, qk_nope_head_dim, qk_rope_head_dim",
    "attention.head_count, attention.key_length_mla, rope.dimension_count",
);
pub(crate) const V_DIM: Size = size(
    |config| Ok(config.divisor("num_attention_heads")?.saturating_mul(config.needed("v_head_dim")?)),
    "num_attention_heads, v_head_dim",
    "attention.head_count, attention.value_length_mla",
);
pub(crate) const KV_A_DIM: Size = size(
    |config| Ok(config.needed("kv_lora_rank")?.saturating_add(config.needed("qk_rope_head_dim")?)),
    "kv_lora_rank, qk_rope_head_dim",
    "attention.kv_lora_rank, rope.dimension_count",
);

/// The keys of multi-head latent attention and of DeepSeek's experts, after the common ones.
pub(crate) const LATENT_KEYS: &[Key] = &[
    count_fn("attention.head_count_kv", |_| Ok(Some(1))),
    count_fn("leading_dense_block_count", |config| match config.count(&["first_k_dense_replace"])? {
        Some(leading) => Ok(Some(leading)),
        None if config.get("n_routed_experts").is_some() => Ok(Some(0)),
        None => config.layers().map(Some),
    }),
    count("vocab_size", &["vocab_size"]),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    count("attention.kv_lora_rank", &["kv_lora_rank"]),
    count_fn("attention.key_length", |config| sum(config, "kv_lora_rank", "qk_rope_head_dim")),
    count("attention.value_length", &["kv_lora_rank"]),
    count_fn("attention.key_length_mla", |config| sum(config, "qk_nope_head_dim", "qk_rope_head_dim")),
    count("attention.value_length_mla", &["v_head_dim"]),
    count("expert_feed_forward_length", &["moe_intermediate_size", "intermediate_size"]),
    count("expert_count", &["n_routed_experts"]),
    count_or("expert_shared_count", &["n_shared_experts"], 0),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    Key {
        gguf: "expert_weights_norm",
        from: ValueSource::BoolFn(|config| Ok(config.flag("norm_topk_prob")?.filter(|norm| *norm))),
    },
    count("rope.dimension_count", &["qk_rope_head_dim"]),
    real_fn("rope.scaling.yarn_log_multiplier", |config| {
        Ok(config.rope().real("mscale_all_dim")?.map(|scale| 0.1 * scale))
    }),
];

fn sum(config: &Config, a: &str, b: &str) -> Result<Option<u64>> {
    Ok(Some(config.needed(a)?.saturating_add(config.needed(b)?)))
}
