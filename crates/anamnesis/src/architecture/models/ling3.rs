//! Ling 3 (Bailing MoE, third version): layers with Kimi Delta Attention, of which the last of every group has latent
//! attention with a gate for each head.

use crate::architecture::families::PLAIN;
use crate::architecture::latent::{KV_A_DIM, KV_RANK, LATENT_Q_DIM, NOPE_DIM, Q_RANK, V_DIM, V_HEAD_DIM};
use crate::architecture::prelude::*;

pub(super) static TEXT: Architecture = Architecture {
    classes: &[class("BailingMoeV3ForCausalLM", "bailing_moe_v3")],
    keys: &[COMMON, KEYS, NEXTN_KEYS],
    ..LING
};

/// Ling 3 with a vision tower: positions have sections for time, height and width.
pub(super) static WITH_VISION: Architecture = Architecture {
    classes: &[class("BailingMoeV3VLForConditionalGeneration", "bailing_moe_v3_vl")],
    keys: &[COMMON, KEYS, NEXTN_KEYS, SECTIONS],
    not_held: Some("the vision tower, which its class needs"),
    restore: None,
    ..LING
};

const LING: Architecture = Architecture {
    name: "bailingmoe3",
    rules: &[ENDS, NORMS, DELTA, LATENT, GATED_FFN, EXPERTS, SHARED_EXPERTS, ROUTER_BIAS, NEXTN_TENSORS, LAST],
    dropped: &["linear_proj"],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    restore: Some(restored),
    ..PLAIN
};

/// The key that decides which layers have latent attention.
const GROUP: &str = "layer_group_size";

/// Whether a layer has latent attention: the last of every group, and all layers after the last whole group.
fn is_latent(config: &Config, layer: u64) -> Result<bool> {
    let (group, layers) = (config.divisor(GROUP)?, config.layers()?);
    Ok((layer + 1).is_multiple_of(group) || layer >= layers / group * group)
}

const DELTA_LAYER: Need = Need::When(GROUP, |config, layer| Ok(needed_if(!is_latent(config, layer)?)));
const LATENT_LAYER: Need = Need::When(GROUP, |config, layer| Ok(needed_if(is_latent(config, layer)?)));
const LOW_RANK: Need = Need::When("q_lora_rank, layer_group_size", |config, layer| {
    Ok(needed_if(config.get("q_lora_rank").is_some() && is_latent(config, layer)?))
});
const FULL_RANK: Need = Need::When("q_lora_rank, layer_group_size", |config, layer| {
    Ok(needed_if(config.get("q_lora_rank").is_none() || !is_latent(config, layer)?))
});

const DELTA_HEAD: Size = size(|config| config.needed("head_dim"), "head_dim", "kda.head_dim");
const DELTA_DIM: Size = size(
    |config| Ok(heads(config)?.saturating_mul(config.needed("head_dim")?)),
    "num_attention_heads, head_dim",
    "attention.head_count, kda.head_dim",
);
const QUERIES: Size = layer_size(
    |config, layer| if is_latent(config, layer)? { (LATENT_Q_DIM.of)(config) } else { (DELTA_DIM.of)(config) },
    "layer_group_size, num_attention_heads, head_dim, qk_nope_head_dim, qk_rope_head_dim",
    "attention.head_count_kv, attention.head_count, kda.head_dim, attention.key_length_mla",
);
const VALUES: Size = layer_size(
    |config, layer| if is_latent(config, layer)? { (V_DIM.of)(config) } else { (DELTA_DIM.of)(config) },
    "layer_group_size, num_attention_heads, head_dim, v_head_dim",
    "attention.head_count_kv, attention.head_count, kda.head_dim, attention.value_length_mla",
);
const WIDTH: Size = size(|config| config.needed(KERNEL_KEY), KERNEL_KEY, "ssm.conv_kernel");
const KERNEL_KEY: &str = "short_conv_kernel_size";

const ENDS: &[Rule] = &[
    model("model.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

/// A convolution gets the dimensions of ggml's.
const CONVOLUTION: &[Change] = &[Change::Shaped(&[DELTA_DIM, ONE, WIDTH], CONVOLVED)];
const CONVOLVED: &[Size] = &[ONE, DELTA_DIM, ONE, WIDTH];

const DELTA: &[Rule] = &[
    layer("attention.q_proj.*", "attn_q.*", &[QUERIES, HIDDEN]).when(FULL_RANK),
    layer("attention.k_proj.*", "attn_k.*", &[DELTA_DIM, HIDDEN]).when(DELTA_LAYER),
    layer("attention.v_proj.*", "attn_v.*", &[DELTA_DIM, HIDDEN]).when(DELTA_LAYER),
    layer("attention.o_proj.weight", "attn_output.weight", &[HIDDEN, VALUES]).when(DELTA_LAYER),
    layer("attention.f_proj.weight", "ssm_f_a.weight", &[DELTA_DIM, HIDDEN]).when(DELTA_LAYER),
    layer("attention.g_proj.weight", "ssm_g_a.weight", &[DELTA_DIM, HIDDEN]).when(DELTA_LAYER),
    layer("attention.b_proj.*", "ssm_beta.*", &[HEADS, HIDDEN]).when(DELTA_LAYER),
    layer("attention.q_conv1d.weight", "ssm_conv1d_q.weight", CONVOLVED).with(CONVOLUTION).when(DELTA_LAYER),
    layer("attention.k_conv1d.weight", "ssm_conv1d_k.weight", CONVOLVED).with(CONVOLUTION).when(DELTA_LAYER),
    layer("attention.v_conv1d.weight", "ssm_conv1d_v.weight", CONVOLVED).with(CONVOLUTION).when(DELTA_LAYER),
    layer("attention.A_log", "ssm_a", &[HEADS, ONE]).with(&[Change::Exponential, Change::Column]).when(DELTA_LAYER),
    layer("attention.dt_bias", "ssm_dt.bias", &[DELTA_DIM]).when(DELTA_LAYER),
    layer("attention.o_norm.*", "ssm_norm.*", &[DELTA_HEAD]).when(DELTA_LAYER),
];

const LATENT: &[Rule] = &[
    layer("attention.q_a_proj.*", "attn_q_a.*", &[Q_RANK, HIDDEN]).when(LOW_RANK),
    layer("attention.q_a_layernorm.*", "attn_q_a_norm.*", &[Q_RANK]).when(LOW_RANK),
    layer("attention.q_b_proj.*", "attn_q_b.*", &[LATENT_Q_DIM, Q_RANK]).when(LOW_RANK),
    layer("attention.kv_a_proj_with_mqa.*", "attn_kv_a_mqa.*", &[KV_A_DIM, HIDDEN]).when(LATENT_LAYER),
    layer("attention.kv_a_layernorm.*", "attn_kv_a_norm.*", &[KV_RANK]).when(LATENT_LAYER),
    layer("attention.kv_b_proj.weight", "attn_k_b.weight", &[HEADS, KV_RANK, NOPE_DIM])
        .with(&[Change::First(Halves::KeysAndValues), Change::Transposed])
        .when(LATENT_LAYER),
    layer("attention.kv_b_proj.weight", "attn_v_b.weight", &[HEADS, V_HEAD_DIM, KV_RANK])
        .with(&[Change::Second(Halves::KeysAndValues)])
        .when(LATENT_LAYER),
    layer("attention.g_proj.weight", "attn_gate.weight", &[HEADS, HIDDEN]).when(LATENT_LAYER),
    layer("attention.dense.weight", "attn_output.weight", &[HIDDEN, VALUES]).when(LATENT_LAYER),
];

const ROUTER_BIAS: &[Rule] = &[layer("mlp.gate.expert_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(SPARSE)];

const LAST: &[Rule] = &[layer("final_layernorm.*", "layer_output_norm.*", &[HIDDEN]).when(NEXTN_OPTIONAL)];

const KEYS: &[Key] = &[
    ints_fn("attention.head_count_kv", |config| {
        config.per_layer(|layer| Ok(i32::from(is_latent(config, layer)?))).map(Some)
    }),
    needed("vocab_size", "vocab_size"),
    needed("ssm.conv_kernel", KERNEL_KEY),
    needed("kda.head_dim", "head_dim"),
    flag_fn("kda.safe_gate", |config| supported(config).map(Some)),
    needed_real("kda.gate_lower_bound", "kda_lower_bound"),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    needed("attention.kv_lora_rank", "kv_lora_rank"),
    needed("rope.dimension_count", "qk_rope_head_dim"),
    count_fn("attention.key_length", |config| (KV_A_DIM.of)(config).map(Some)),
    count_fn("attention.key_length_mla", |config| {
        Ok(Some((NOPE_DIM.of)(config)?.saturating_add(config.needed("qk_rope_head_dim")?)))
    }),
    needed("attention.value_length_mla", "v_head_dim"),
    needed("expert_feed_forward_length", "moe_intermediate_size"),
    needed("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
    count_or("expert_shared_count", &["num_shared_experts"], 1),
    needed("leading_dense_block_count", "first_k_dense_replace"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
    flag("expert_weights_norm", "norm_topk_prob"),
    reals_fn("swiglu_clamp_exp", |config| limits(config, LIMITS[0].1)),
    reals_fn("swiglu_clamp_shexp", |config| limits(config, LIMITS[1].1)),
];

/// The limits of the gates of experts and of the shared expert, for every layer.
const LIMITS: [(&str, &str); 2] =
    [("swiglu_clamp_exp", "expert_swiglu_limit_list"), ("swiglu_clamp_shexp", "share_expert_swiglu_limit_list")];

/// The only kinds of gates that llama.cpp runs, by key.
const GATES: [(&str, bool); 2] = [("no_kda_lora", true), ("kda_safe_gate", true)];
const GRANULARITY: (&str, &str) = ("gated_attention_proj_granularity_type", "head_wise");

/// Whether the gates are those that llama.cpp runs; others are refused.
fn supported(config: &Config) -> Result<bool> {
    let wrong = |key, needed: &str| AnamnesisError::parse(format!("config.json: \"{key}\": {needed} is needed"));
    for (key, needed) in GATES {
        if config.is_set(key)? != needed {
            return Err(wrong(key, "true"));
        }
    }
    match config.text(GRANULARITY.0)? {
        Some(kind) if kind == GRANULARITY.1 => Ok(true),
        _ => Err(wrong(GRANULARITY.0, GRANULARITY.1)),
    }
}

const SECTIONS: &[Key] = &[ints_fn("rope.dimension_sections", |config| {
    let sections = config.counts("mrope_section")?.unwrap_or_default();
    let (Some(three), rotated) = (sections.get(..3), config.needed("qk_rope_head_dim")?) else {
        return Err(AnamnesisError::parse("config.json: \"mrope_section\": three sections are needed"));
    };
    if three.iter().fold(0u64, |sum, section| sum.saturating_add(*section)).saturating_mul(2) != rotated {
        let why = format!("config.json: \"mrope_section\" {three:?} is not half of qk_rope_head_dim ({rotated})");
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(three.iter().map(|section| *section as i32).chain([0]).collect()))
})];

fn restored(file: &Gguf<'_>, config: &mut serde_json::Map<String, serde_json::Value>) -> Result<usize> {
    restore::plain(file, config)?;
    config.remove("n_shared_experts");
    config.remove("shared_intermediate_size");
    if let Some(kind) = config.remove("scoring_func") {
        set(config, "score_function", kind);
    }
    for (key, needed) in GATES {
        set(config, key, needed);
    }
    set(config, GRANULARITY.0, GRANULARITY.1);
    set(config, "head_dim", file.count("kda.head_dim"));
    set(config, "num_key_value_heads", file.count("attention.head_count"));
    if let Some(serde_json::Value::Array(counts)) = file.count_or_list("attention.head_count_kv") {
        let last = counts.iter().position(|count| count.as_u64() == Some(1)).unwrap_or(counts.len());
        set(config, GROUP, last + 1);
    }
    for (gguf, key) in LIMITS {
        if let Some(limits) = file.reals(gguf) {
            set(config, key, limits.iter().copied().map(shortest).collect::<Vec<_>>());
        }
    }
    Ok(0)
}
