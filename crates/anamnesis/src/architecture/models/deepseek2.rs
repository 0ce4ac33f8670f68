//! DeepSeek V2 and V3, Kimi K2: multi-head latent attention, routed and shared experts.

use serde_json::{Map, Value};

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "deepseek2",
    classes: &[
        Class {
            name: "DeepseekV2ForCausalLM",
            model_type: "deepseek_v2",
            defaults: &[
                BASE,
                RANKS,
                &[
                    ("vocab_size", Count(102_400)),
                    ("n_routed_experts", Count(64)),
                    ("moe_intermediate_size", Count(1407)),
                    ("routed_scaling_factor", Real(1.0)),
                    ("first_k_dense_replace", Count(0)),
                    ("n_shared_experts", Count(2)),
                ],
            ],
        },
        Class { name: "DeepseekV3ForCausalLM", model_type: "deepseek_v3", defaults: V3 },
        Class { name: "KimiK2ForCausalLM", model_type: "kimi_k2", defaults: V3 },
    ],
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, KEYS],
    head: Head::UnlessTied,
    drops_nextn_layers: true,
    restore,
    ..DECODER
};

/// The ranks and head sizes of multi-head latent attention.
const RANKS: &[ClassDefault] = &[
    ("q_lora_rank", Count(1536)),
    ("kv_lora_rank", Count(512)),
    ("qk_rope_head_dim", Count(64)),
    ("qk_nope_head_dim", Count(128)),
    ("v_head_dim", Count(128)),
];

const V3: &[&[ClassDefault]] = &[
    BASE,
    RANKS,
    &[
        ("vocab_size", Count(129_280)),
        ("hidden_size", Count(7168)),
        ("intermediate_size", Count(18432)),
        ("num_hidden_layers", Count(61)),
        ("num_attention_heads", Count(128)),
        ("num_key_value_heads", Count(128)),
        ("max_position_embeddings", Count(4096)),
        ("n_routed_experts", Count(256)),
        ("num_experts_per_tok", Count(8)),
        ("moe_intermediate_size", Count(2048)),
        ("norm_topk_prob", Flag(true)),
        ("n_group", Count(8)),
        ("topk_group", Count(4)),
        ("routed_scaling_factor", Real(2.5)),
        ("first_k_dense_replace", Count(3)),
        ("n_shared_experts", Count(1)),
    ],
];

const LATENT_ATTENTION: &[Rule] = &[
    layer("self_attn.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]).when(LOW_RANK_Q).biased(LOW_RANK_Q_BIAS),
    layer("self_attn.q_a_layernorm.*", "attn_q_a_norm.*", &[Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.q_b_proj.*", "attn_q_b.*", &[Q_DIM, Q_RANK]).when(LOW_RANK_Q),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).when(FULL_RANK_Q),
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
const CORRECTED: Need = Need::When(
    "model_type, n_routed_experts or expert_count, first_k_dense_replace or leading_dense_block_count",
    |config, layer| {
        Ok(match (has_experts(config, layer)?, config.text("model_type")?) {
            (false, _) => Presence::Surplus,
            (true, Some("deepseek_v2")) => Presence::Allowed,
            (true, _) => Presence::Needed,
        })
    },
);
/// Queries have a low rank too, in whole but the small models.
const LOW_RANK_Q: Need = Need::When("q_lora_rank or attention.q_lora_rank", |config, _| {
    Ok(if config.get("q_lora_rank").is_some() { Presence::Needed } else { Presence::Surplus })
});
const FULL_RANK_Q: Need = Need::When("q_lora_rank or attention.q_lora_rank", |config, _| {
    Ok(if config.get("q_lora_rank").is_some() { Presence::Surplus } else { Presence::Needed })
});
const LOW_RANK_Q_BIAS: Need =
    Need::When("q_lora_rank or attention.q_lora_rank", |config, _| match config.get("q_lora_rank") {
        Some(_) => flagged(config, "attention_bias"),
        None => Ok(Presence::Surplus),
    });

const Q_RANK: Size = size(|config| config.needed("q_lora_rank"), "q_lora_rank", "attention.q_lora_rank");
const KV_RANK: Size = size(|config| config.needed("kv_lora_rank"), "kv_lora_rank", "attention.kv_lora_rank");
const NOPE_DIM: Size = size(
    |config| config.needed("qk_nope_head_dim"),
    "qk_nope_head_dim",
    "attention.key_length_mla, rope.dimension_count",
);
const V_HEAD_DIM: Size = size(|config| config.needed("v_head_dim"), "v_head_dim", "attention.value_length_mla");
const Q_DIM: Size = size(
    |config| {
        let size = config.needed("qk_nope_head_dim")?.saturating_add(config.needed("qk_rope_head_dim")?);
        Ok(config.divisor("num_attention_heads")?.saturating_mul(size))
    },
    "num_attention_heads, qk_nope_head_dim, qk_rope_head_dim",
    "attention.head_count, attention.key_length_mla, rope.dimension_count",
);
const V_DIM: Size = size(
    |config| Ok(config.divisor("num_attention_heads")?.saturating_mul(config.needed("v_head_dim")?)),
    "num_attention_heads, v_head_dim",
    "attention.head_count, attention.value_length_mla",
);
const KV_A_DIM: Size = size(
    |config| Ok(config.needed("kv_lora_rank")?.saturating_add(config.needed("qk_rope_head_dim")?)),
    "kv_lora_rank, qk_rope_head_dim",
    "attention.kv_lora_rank, rope.dimension_count",
);

const KEYS: &[Key] = &[
    count_fn("attention.head_count_kv", |_| Ok(Some(1))),
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count("vocab_size", &["vocab_size"]),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    count("attention.kv_lora_rank", &["kv_lora_rank"]),
    count_fn("attention.key_length", |config| sum(config, "kv_lora_rank", "qk_rope_head_dim")),
    count("attention.value_length", &["kv_lora_rank"]),
    count_fn("attention.key_length_mla", |config| sum(config, "qk_nope_head_dim", "qk_rope_head_dim")),
    count("attention.value_length_mla", &["v_head_dim"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_count", &["n_routed_experts"]),
    count("expert_shared_count", &["n_shared_experts"]),
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

fn restore(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    config.remove("num_local_experts");
    if let Some(heads) = file.count("attention.head_count") {
        set(config, "num_key_value_heads", heads);
    }
    if let (Some(whole), Some(rope)) = (file.count("attention.key_length_mla"), file.count("rope.dimension_count")) {
        set(config, "qk_nope_head_dim", whole.saturating_sub(rope));
        set(config, "qk_rope_head_dim", rope);
        set(config, "head_dim", rope);
    }
    if file.count("attention.q_lora_rank").is_none() {
        set(config, "q_lora_rank", Value::Null);
    }
    if let (Some(scale), Some(Value::Object(scaling))) =
        (file.real("rope.scaling.yarn_log_multiplier"), config.get_mut("rope_scaling"))
    {
        // GGUF has a tenth of it.
        let scale = shortest((scale * 10.0) as f32);
        scaling.insert("mscale".to_owned(), scale.into());
        scaling.insert("mscale_all_dim".to_owned(), scale.into());
    }
    let is_normed = file.flag("expert_weights_norm").unwrap_or(false);
    set(config, "norm_topk_prob", is_normed);
    let is_v3 = file.count("expert_gating_func") == Some(2);
    set(config, "scoring_func", if is_v3 { "sigmoid" } else { "softmax" });
    set(config, "topk_method", if is_v3 { "noaux_tc" } else { "greedy" });
    Ok(usize::from(is_v3))
}
