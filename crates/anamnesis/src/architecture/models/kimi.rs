//! Kimi Linear and GLM 5 Next: layers with Kimi Delta Attention, and every few layers one with latent attention.

use super::deepseek::{INDEX_DIM, INDEX_HEADS, INDEX_SIZE, INDEXER_KEYS, INDEXER_TYPES};
use super::glm::GLM_TOKENS;
use crate::architecture::families::PLAIN;
use crate::architecture::latent::{KV_A_DIM, KV_RANK, LATENT_Q_DIM, NOPE_DIM, Q_RANK, V_DIM, V_HEAD_DIM};
use crate::architecture::prelude::*;

pub(super) static KIMI_LINEAR: Architecture = Architecture {
    name: "kimi-linear",
    classes: &[class("KimiLinearForCausalLM", "kimi_linear"), class("KimiLinearModel", "kimi_linear")],
    rules: &[
        EMBED_NORM_HEAD,
        NORMS,
        ATTENTION_OF_BOTH,
        DELTA,
        LOW_RANK_GATE,
        KIMI_DECAY,
        LATENT,
        GATED_FFN,
        MIXTURE,
        KIMI_EXPERTS,
    ],
    keys: &[COMMON, HYBRID_KEYS, DELTA_KEYS, KIMI_KEYS],
    tokenizer: BPE_OR_RANKS_WITH_END,
    restore: Some(restored),
    ..PLAIN
};

pub(super) static GLM5_NEXT: Architecture = Architecture {
    name: "glm5-next",
    classes: &[class("Glm5NextForConditionalGeneration", "glm5_next")],
    rules: &[
        EMBED_NORM_HEAD,
        NORMS,
        ATTENTION_OF_BOTH,
        DELTA,
        LOW_RANK_GATE,
        GLM_DECAY,
        LATENT,
        INDEXER,
        HYPER_CONNECTIONS,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
        CORRECTION,
        NEXTN_TENSORS,
    ],
    keys: &[COMMON, HYBRID_KEYS, GLM_EPSILON, NEXTN_KEYS, DELTA_KEYS, GLM_KEYS],
    tokenizer: GLM_TOKENS,
    head: Head::UnlessTied,
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    types: TypeRules::with_f32(&["hc_attn_", "hc_ffn_", "indexer_compressor_", "ssm_a", "ssm_dt", "exp_probs_b"]),
    restore: Some(restored),
    ..PLAIN
};

const OF: &str = "linear_attn_config.full_attn_layers, layer_types";

/// Whether a layer has delta attention.
pub(super) fn is_linear(config: &Config, layer: u64) -> Result<bool> {
    if let Some(full) = config.counts("linear_attn_config.full_attn_layers")? {
        return Ok(!full.contains(&layer.saturating_add(1)));
    }
    Ok(config.text_of_layer("layer_types", layer)? == Some("linear_attention"))
}

pub(super) const LINEAR: Need = Need::When(OF, |config, layer| Ok(needed_if(is_linear(config, layer)?)));
const FULL: Need = Need::When(OF, |config, layer| Ok(needed_if(!is_linear(config, layer)?)));
const FULL_BIAS: Need =
    Need::When("attention_bias, linear_attn_config.full_attn_layers, layer_types", |config, layer| {
        match is_linear(config, layer)? {
            true => Ok(Presence::Surplus),
            false => flagged(config, "attention_bias"),
        }
    });
const LOW_RANK: Need = Need::When("q_lora_rank, linear_attn_config.full_attn_layers, layer_types", |config, layer| {
    Ok(needed_if(config.get("q_lora_rank").is_some() && !is_linear(config, layer)?))
});
const FULL_RANK: Need = Need::When("q_lora_rank, linear_attn_config.full_attn_layers, layer_types", |config, layer| {
    Ok(needed_if(config.get("q_lora_rank").is_none() || is_linear(config, layer)?))
});

const DELTA_SIZE: Size = size(
    |config| first(config, &["linear_attn_config.head_dim", "linear_head_dim"]),
    "linear_attn_config.head_dim",
    "kda.head_dim",
);
const DELTA_HEADS: Size = size(
    |config| first(config, &["linear_attn_config.num_heads", "linear_num_heads"]),
    "linear_attn_config.num_heads",
    "attention.head_count",
);
pub(super) const DELTA_DIM: Size = size(
    |config| Ok((DELTA_SIZE.of)(config)?.saturating_mul((DELTA_HEADS.of)(config)?)),
    "linear_attn_config.num_heads, linear_attn_config.head_dim",
    "attention.head_count, kda.head_dim",
);
const CONV_WIDTH: Size = size(
    |config| first(config, &["linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"]),
    "linear_attn_config.short_conv_kernel_size",
    "ssm.conv_kernel",
);
const QUERIES: Size = layer_size(
    |config, layer| if is_linear(config, layer)? { (DELTA_DIM.of)(config) } else { (LATENT_Q_DIM.of)(config) },
    "layer_types, linear_attn_config: full_attn_layers, num_attention_heads, qk_nope_head_dim, qk_rope_head_dim",
    "attention.head_count, kda.head_dim, attention.key_length_mla",
);
const VALUES: Size = layer_size(
    |config, layer| if is_linear(config, layer)? { (DELTA_DIM.of)(config) } else { (V_DIM.of)(config) },
    "layer_types, linear_attn_config, num_attention_heads, v_head_dim",
    "attention.head_count, kda.head_dim, attention.value_length_mla",
);

pub(super) const ATTENTION_OF_BOTH: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, HIDDEN]).when(FULL_RANK),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, VALUES]).biased(FULL_BIAS),
];

/// A convolution gets the dimensions of ggml's.
const CONVOLUTION: &[Change] = &[Change::Shaped(&[DELTA_DIM, ONE, CONV_WIDTH], &[ONE, DELTA_DIM, ONE, CONV_WIDTH])];
const CONVOLVED: &[Size] = &[ONE, DELTA_DIM, ONE, CONV_WIDTH];

pub(super) const DELTA: &[Rule] = &[
    layer("self_attn.k_proj.*", "attn_k.*", &[DELTA_DIM, HIDDEN]).when(LINEAR),
    layer("self_attn.v_proj.*", "attn_v.*", &[DELTA_DIM, HIDDEN]).when(LINEAR),
    layer("self_attn.b_proj.*", "ssm_beta.*", &[DELTA_HEADS, HIDDEN]).when(LINEAR),
    layer("self_attn.dt_bias", "ssm_dt.bias", &[DELTA_DIM]).when(LINEAR),
    layer("self_attn.f_a_proj.*", "ssm_f_a.*", &[DELTA_SIZE, HIDDEN]).when(LINEAR),
    layer("self_attn.f_b_proj.*", "ssm_f_b.*", &[DELTA_DIM, DELTA_SIZE]).when(LINEAR),
    layer("self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", CONVOLVED).with(CONVOLUTION).when(LINEAR),
    layer("self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", CONVOLVED).with(CONVOLUTION).when(LINEAR),
    layer("self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", CONVOLVED).with(CONVOLUTION).when(LINEAR),
    layer("self_attn.o_norm.*", "ssm_norm.*", &[DELTA_SIZE]).when(LINEAR),
];

/// The gate of delta attention, of low rank.
const LOW_RANK_GATE: &[Rule] = &[
    layer("self_attn.g_a_proj.*", "ssm_g_a.*", &[DELTA_SIZE, HIDDEN]).when(LINEAR),
    layer("self_attn.g_b_proj.*", "ssm_g_b.*", &[DELTA_DIM, DELTA_SIZE]).when(LINEAR),
];

const KIMI_DECAY: &[Rule] = &[layer("self_attn.A_log", "ssm_a", &[ONE, ONE, DELTA_HEADS, ONE])
    .with(&[Change::NegativeExponential])
    .when(LINEAR)];

const GLM_DECAY: &[Rule] = &[layer("self_attn.A_log", "ssm_a", &[DELTA_HEADS])
    .with(&[Change::Shaped(&[DELTA_HEADS], &[DELTA_HEADS]), Change::NegativeExponential])
    .when(LINEAR)];

pub(super) const LATENT: &[Rule] = &[
    layer("self_attn.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]).when(LOW_RANK),
    layer("self_attn.q_a_layernorm.*", "attn_q_a_norm.*", &[Q_RANK]).when(LOW_RANK),
    layer("self_attn.q_b_proj.*", "attn_q_b.*", &[LATENT_Q_DIM, Q_RANK]).when(LOW_RANK),
    layer("self_attn.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]).when(FULL).biased(FULL_BIAS),
    layer("self_attn.kv_a_layernorm.*", "attn_kv_a_norm.*", &[KV_RANK]).when(FULL),
    layer("self_attn.kv_b_proj.weight", "attn_k_b.weight", &[HEADS, KV_RANK, NOPE_DIM])
        .with(&[Change::First(Halves::KeysAndValues), Change::Transposed])
        .when(FULL),
    layer("self_attn.kv_b_proj.weight", "attn_v_b.weight", &[HEADS, V_HEAD_DIM, KV_RANK])
        .with(&[Change::Second(Halves::KeysAndValues)])
        .when(FULL),
];

pub(super) const KIMI_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("block_sparse_moe.shared_experts.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("block_sparse_moe.shared_experts.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("block_sparse_moe.shared_experts.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

/// The layers with latent attention that have an indexer.
const INDEXED: Need = Need::When("indexer_types, layer_types", |config, layer| {
    let is_shared = config.text_of_layer("indexer_types", layer)?.is_some_and(|kind| kind != "full");
    Ok(needed_if(!is_shared && !is_linear(config, layer)?))
});
const POOL: Size = size(|config| config.needed("index_kpool"), "index_kpool", "attention.indexer.kpool");

const INDEXER: &[Rule] = &[
    layer("self_attn.indexer.wq_b.*", "indexer.attn_q_b.*", &[INDEX_DIM, Q_RANK]).when(INDEXED),
    layer("self_attn.indexer.wk.*", "indexer.attn_k.*", &[INDEX_SIZE, HIDDEN]).when(INDEXED),
    layer("self_attn.indexer.k_norm.*", "indexer.k_norm.*", &[INDEX_SIZE]).when(INDEXED).biased(INDEXED),
    layer("self_attn.indexer.weights_proj.*", "indexer.proj.*", &[INDEX_HEADS, HIDDEN]).when(INDEXED),
    layer("self_attn.indexer.index_kpool_compress_ape", "indexer_compressor_ape.weight", &[POOL, INDEX_SIZE])
        .when(INDEXED),
    layer("self_attn.indexer.index_kpool_compress_gate", "indexer_compressor_gate.weight", &[INDEX_SIZE, HIDDEN])
        .when(INDEXED),
];

const STREAMS: Size = size(
    |config| Ok(config.needed("hc_mult")?.saturating_mul(first(config, HIDDEN_KEYS)?)),
    "hc_mult, hidden_size",
    "hyper_connection.count, embedding_length",
);
/// The coefficients of n streams: n to read, n to write, n * n to mix.
const COEFFICIENTS: Size = size(
    |config| {
        let streams = config.needed("hc_mult")?;
        Ok(streams.saturating_mul(streams.saturating_add(2)))
    },
    "hc_mult",
    "hyper_connection.count",
);
const THREE: Size = size(|_| Ok(3), "", "");

const HYPER_CONNECTIONS: &[Rule] = &[
    layer("hc_attn_base", "hc_attn_base.weight", &[COEFFICIENTS]),
    layer("hc_attn_fn", "hc_attn_fn.weight", &[COEFFICIENTS, STREAMS]),
    layer("hc_attn_scale", "hc_attn_scale.weight", &[THREE]),
    layer("hc_ffn_base", "hc_ffn_base.weight", &[COEFFICIENTS]),
    layer("hc_ffn_fn", "hc_ffn_fn.weight", &[COEFFICIENTS, STREAMS]),
    layer("hc_ffn_scale", "hc_ffn_scale.weight", &[THREE]),
];

/// One head of keys in layers with latent attention, none in others.
pub(super) const HYBRID_KEYS: &[Key] = &[
    ints_fn("attention.head_count_kv", |config| {
        config.per_layer(|layer| Ok(i32::from(!is_linear(config, layer)?))).map(Some)
    }),
    count("vocab_size", &["vocab_size"]),
];

pub(super) const DELTA_KEYS: &[Key] = &[
    count_fn("ssm.conv_kernel", |config| (CONV_WIDTH.of)(config).map(Some)),
    count_fn("kda.head_dim", |config| (DELTA_SIZE.of)(config).map(Some)),
];

/// The size of keys and values that the cache has.
pub(super) fn cached(config: &Config) -> Result<Option<u64>> {
    (KV_A_DIM.of)(config).map(Some)
}

const KIMI_KEYS: &[Key] = &[
    count("attention.q_lora_rank", &["q_lora_rank"]),
    count_fn("attention.kv_lora_rank", |config| (KV_RANK.of)(config).map(Some)),
    needed("rope.dimension_count", "qk_rope_head_dim"),
    count_fn("attention.key_length", cached),
    count_fn("attention.key_length_mla", key_length),
    count("attention.value_length_mla", &["v_head_dim"]),
    needed("expert_feed_forward_length", "moe_intermediate_size"),
    needed("expert_shared_count", "num_shared_experts"),
    needed("leading_dense_block_count", "first_k_dense_replace"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
];

pub(super) fn key_length(config: &Config) -> Result<Option<u64>> {
    Ok(Some((NOPE_DIM.of)(config)?.saturating_add(config.needed("qk_rope_head_dim")?)))
}

const GLM_EPSILON: &[Key] = &[
    removed("attention.key_length"),
    removed("attention.value_length"),
    real_fn("attention.layer_norm_epsilon", |_| Ok(Some(1e-6))),
];

const GLM_KEYS: &[Key] = &[
    real("kda.gate_lower_bound", &["linear_attn_config.gate_lower_bound", "linear_lower_bound"]),
    count_fn("attention.q_lora_rank", |config| (Q_RANK.of)(config).map(Some)),
    count_fn("attention.kv_lora_rank", |config| (KV_RANK.of)(config).map(Some)),
    count_fn("rope.dimension_count", unrotated),
    count_fn("attention.key_length", cached),
    count_fn("attention.value_length", |config| (KV_RANK.of)(config).map(Some)),
    count_fn("attention.key_length_mla", key_length),
    count_fn("attention.value_length_mla", |config| (V_HEAD_DIM.of)(config).map(Some)),
    INDEXER_KEYS[0],
    INDEXER_KEYS[1],
    INDEXER_KEYS[2],
    count_fn("attention.indexer.kpool", |config| (POOL.of)(config).map(Some)),
    flag_or("attention.indexer.kpool_select_tail", "index_kpool_always_select_tail", true),
    INDEXER_TYPES[0],
    needed("hyper_connection.count", "hc_mult"),
    needed("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"),
    needed_real("hyper_connection.epsilon", "hc_eps"),
    needed("leading_dense_block_count", "first_k_dense_replace"),
    needed("expert_feed_forward_length", "moe_intermediate_size"),
    needed("expert_shared_count", "n_shared_experts"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
    flag("expert_weights_norm", "norm_topk_prob"),
    reals_fn("swiglu_clamp_exp", clamps),
    reals_fn("swiglu_clamp_shexp", clamps),
];

/// Latent attention without positions.
fn unrotated(config: &Config) -> Result<Option<u64>> {
    match config.needed("qk_rope_head_dim")? {
        0 => Ok(Some(0)),
        other => Err(AnamnesisError::parse(format!("config.json: \"qk_rope_head_dim\" is {other}, 0 is needed"))),
    }
}

/// The limit of the feed-forward network's gate, for every layer.
fn clamps(config: &Config) -> Result<Option<Vec<f32>>> {
    match config.real(&["swiglu_limit"])? {
        Some(limit) => config.per_layer(|_| Ok(limit as f32)).map(Some),
        None => Ok(None),
    }
}

fn restored(file: &Gguf<'_>, config: &mut serde_json::Map<String, serde_json::Value>) -> Result<usize> {
    restore::plain(file, config)?;
    let full = if file.flags("attention.indexer.types").is_some() { "indexed_attention" } else { "full_attention" };
    restore::kinds_by_kv_heads(file, config, "layer_types", full, "linear_attention");
    for (gguf, key) in [("kda.head_dim", "linear_head_dim"), ("ssm.conv_kernel", "linear_conv_kernel_dim")] {
        if let Some(count) = file.count(gguf) {
            set(config, key, count);
        }
    }
    for key in ["num_key_value_heads", "linear_num_heads"] {
        if let Some(heads) = file.count("attention.head_count") {
            set(config, key, heads);
        }
    }
    if let Some(limits) = file.reals("swiglu_clamp_exp").and_then(|limits| limits.first().copied()) {
        set(config, "swiglu_limit", shortest(limits));
    }
    if full == "full_attention"
        && let Some(shared) = config.remove("n_shared_experts")
    {
        set(config, "num_shared_experts", shared);
        set(config, "head_dim", file.count("attention.value_length"));
    }
    Ok(0)
}
