//! Step 3.5 and 3.7: more heads in sliding-window layers, a gate per head.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "step35",
    classes: &[class("Step3p5ForCausalLM", "step3p5"), class("Step3p7ForConditionalGeneration", "step3p7")],
    rules: &[TENSORS, PREDICTION],
    keys: &[COMMON, KEYS, NEXTN_KEYS],
    derived_tensors: &[DerivedTensor { name: "rope_freqs.weight", row: None, values: frequencies }],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..PLAIN
};

fn is_sliding(config: &Config, layer: u64) -> Result<bool> {
    Ok(config.text_of_layer("layer_types", layer)? == Some("sliding_attention"))
}

/// The share of a head's dimensions that is rotated in layers with full attention; in others, all are.
const FULL_SHARE: f64 = 0.5;

/// The layers with a sliding window; refused, if other shares of their heads are rotated than llama.cpp expects.
fn sliding(config: &Config) -> Result<Vec<bool>> {
    const SHARES: &str = "partial_rotary_factors";
    let shares = config.reals(SHARES)?.unwrap_or_default();
    let layers = config.per_layer(|layer| is_sliding(config, layer))?;
    for (layer, is_sliding) in layers.iter().enumerate() {
        let (share, expected) =
            (shares.get(layer).copied().unwrap_or(FULL_SHARE), if *is_sliding { 1.0 } else { FULL_SHARE });
        if share != expected {
            let why =
                format!("config.json: \"{SHARES}\" has {share} for layer {layer}, {expected} is needed by layer_types");
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(layers)
}

/// The frequency factors of layers with full attention; those of the other dimensions are 1.
fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    let size = config.head_size()?;
    let factors = config.rope().llama3_factors_in_f64((size as f64 * FULL_SHARE) as u64)?;
    Ok(factors.map(|mut factors| {
        factors.resize(factors.len().max((size / 2) as usize), 1.0);
        factors
    }))
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

/// The tensors of layers for multi-token prediction.
const PREDICTION: &[Rule] = &[
    layer("eh_proj.*", "nextn.eh_proj.*", &[HIDDEN, TWO_HIDDEN]).when(NEXTN),
    layer("enorm.*", "nextn.enorm.*", &[HIDDEN]).with(PLUS_ONE).when(NEXTN),
    layer("hnorm.*", "nextn.hnorm.*", &[HIDDEN]).with(PLUS_ONE).when(NEXTN),
    layer("transformer.shared_head.norm.*", "nextn.shared_head_norm.*", &[HIDDEN]).with(PLUS_ONE).when(NEXTN_OPTIONAL),
    layer("transformer.shared_head.output.*", "nextn.shared_head_head.*", &[VOCAB, HIDDEN]).when(NEXTN_OPTIONAL),
];

const KEYS: &[Key] = &[
    ints_fn("attention.head_count", |config| {
        config.per_layer(|layer| Ok(of_layer(config, "num_attention_heads", layer)? as i32)).map(Some)
    }),
    ints_fn("attention.head_count_kv", |config| {
        config.per_layer(|layer| Ok(of_layer(config, "num_attention_groups", layer)? as i32)).map(Some)
    }),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", |config| sliding(config).map(Some)),
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
