//! Step 3.5: more heads in sliding-window layers, a gate per head.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;
use serde_json::Value;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "step35",
    classes: &[class("Step3p5ForCausalLM", "step3p5")],
    // Layers for multi-token prediction and other scalings of RoPE are not described here.
    applies: |raw| {
        raw.get("num_nextn_predict_layers").and_then(Value::as_u64).unwrap_or(0) == 0
            && raw.get("rope_scaling").is_none_or(Value::is_null)
    },
    rules: &[TENSORS],
    keys: &[COMMON, KEYS],
    ..PLAIN
};

fn is_sliding(config: &Config, layer: u64) -> Result<bool> {
    Ok(config.text_of_layer("layer_types", layer)? == Some("sliding_attention"))
}

/// The value of a key in a layer; sliding-window layers have settings of their own.
fn of_layer(config: &Config, key: &str, layer: u64) -> Result<u64> {
    let own = match is_sliding(config, layer)? {
        true => config.count(&[format!("attention_other_setting.{key}").as_str()])?,
        false => None,
    };
    own.map_or_else(|| config.needed(key), Ok)
}

const HEADS_OF_LAYER: Size = layer_size(
    |config, layer| of_layer(config, "num_attention_heads", layer),
    "num_attention_heads, attention_other_setting, layer_types",
    "attention.head_count",
);
const QUERIES: Size = layer_size(
    |config, layer| Ok(of_layer(config, "num_attention_heads", layer)?.saturating_mul(config.head_size()?)),
    "num_attention_heads, attention_other_setting, layer_types, head_dim",
    "attention.head_count, attention.key_length",
);
const KEYS_OR_VALUES: Size = layer_size(
    |config, layer| Ok(of_layer(config, "num_attention_groups", layer)?.saturating_mul(config.head_size()?)),
    "num_attention_groups, attention_other_setting, layer_types, head_dim",
    "attention.head_count_kv, attention.key_length",
);
const SHARED_INNER: Size =
    size(|config| config.needed("share_expert_dim"), "share_expert_dim", "expert_shared_feed_forward_length");

/// The layers with experts: a list in text.
fn layers_with_experts(config: &Config) -> Result<Option<Vec<u64>>> {
    let Some(text) = config.text("moe_layers_enum")?.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let layers = text.split(',').map(|layer| layer.trim().parse().ok()).collect::<Option<Vec<u64>>>();
    match layers {
        Some(layers) => Ok(Some(layers)),
        None => Err(AnamnesisError::parse("config.json: \"moe_layers_enum\" is no list of layers")),
    }
}

const WITH_EXPERTS: Need = Need::When("moe_layers_enum", |config, layer| {
    Ok(needed_if(layers_with_experts(config)?.is_some_and(|layers| layers.contains(&layer))))
});
const WITHOUT_EXPERTS: Need = Need::When("moe_layers_enum", |config, layer| {
    Ok(needed_if(layers_with_experts(config)?.is_none_or(|layers| !layers.contains(&layer))))
});
const PLUS_ONE: &[Change] = &[Change::PlusOne];

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(PLUS_ONE),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).with(PLUS_ONE),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).with(PLUS_ONE),
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, HIDDEN]),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS_OR_VALUES, HIDDEN]),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS_OR_VALUES, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, QUERIES]),
    layer("self_attn.g_proj.*", "attn_gate.*", &[HEADS_OF_LAYER, HIDDEN]).when(OPTIONAL),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(PLUS_ONE),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(PLUS_ONE),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(WITHOUT_EXPERTS),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(WITHOUT_EXPERTS),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(WITHOUT_EXPERTS),
    layer("moe.gate.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).when(WITH_EXPERTS),
    layer("moe.router_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(WITH_EXPERTS),
    layer("moe.gate_proj.*", "ffn_gate_exps.*", &[EXPERT_COUNT, EXPERT_FFN, HIDDEN]).when(WITH_EXPERTS),
    layer("moe.up_proj.*", "ffn_up_exps.*", &[EXPERT_COUNT, EXPERT_FFN, HIDDEN]).when(WITH_EXPERTS),
    layer("moe.down_proj.*", "ffn_down_exps.*", &[EXPERT_COUNT, HIDDEN, EXPERT_FFN]).when(WITH_EXPERTS),
    layer("share_expert.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_INNER, HIDDEN]).when(WITH_EXPERTS),
    layer("share_expert.up_proj.*", "ffn_up_shexp.*", &[SHARED_INNER, HIDDEN]).when(WITH_EXPERTS),
    layer("share_expert.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_INNER]).when(WITH_EXPERTS),
];

const KEYS: &[Key] = &[
    ints_fn("attention.head_count", |config| {
        config.per_layer(|layer| Ok(of_layer(config, "num_attention_heads", layer)? as i32)).map(Some)
    }),
    ints_fn("attention.head_count_kv", |config| {
        config.per_layer(|layer| Ok(of_layer(config, "num_attention_groups", layer)? as i32)).map(Some)
    }),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", |config| {
        config.per_layer(|layer| is_sliding(config, layer)).map(Some)
    }),
    needed("attention.value_length", "head_dim"),
    count("expert_count", &["moe_num_experts"]),
    count("expert_used_count", &["moe_top_k"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_feed_forward_length", &["share_expert_dim"]),
    real("expert_weights_scale", &["moe_router_scaling_factor"]),
    flag("expert_weights_norm", "norm_expert_weight"),
    count_fn("leading_dense_block_count", |config| {
        Ok(Some(layers_with_experts(config)?.and_then(|layers| layers.into_iter().min()).unwrap_or(0)))
    }),
    count_or("moe_every_n_layers", &["moe_every_n_layer"], 1),
    real_or("attention.layer_norm_rms_epsilon", &["rms_norm_eps"], 1e-5),
    reals_fn("swiglu_clamp_exp", |config| limits(config, "swiglu_limits")),
    reals_fn("swiglu_clamp_shexp", |config| limits(config, "swiglu_limits_shared")),
];
