//! MiMo V2: other heads of keys in sliding-window layers, three layers for multi-token prediction.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "mimo2",
    classes: &[class("MiMoV2FlashForCausalLM", "mimo_v2_flash"), class("MiMoV2ForCausalLM", "mimo_v2")],
    renames: &[Rename::FurtherLayers("model.mtp.layers.")],
    rules: &[EMBED_NORM_HEAD, NORMS, TENSORS, FEED_FORWARD, GATE_FIRST_EXPERTS_OF_MIMO, MIMO_CORRECTION, NEXTN_TENSORS],
    keys: &[COMMON, KEYS, NEXTN_KEYS],
    nextn_layers: NextnLayers::Always(3),
    ..PLAIN
};

/// Whether a layer has a sliding window; those for multi-token prediction do.
fn is_sliding(config: &Config, layer: u64) -> Result<bool> {
    match layer >= config.layers()? {
        true => Ok(true),
        false => Ok(config.count_of_layer("hybrid_layer_pattern", layer)? == Some(1)),
    }
}

fn groups(config: &Config, layer: u64) -> Result<u64> {
    config.needed(if is_sliding(config, layer)? { "swa_num_key_value_heads" } else { "num_key_value_heads" })
}

const GROUPS: &str = "num_key_value_heads, swa_num_key_value_heads, hybrid_layer_pattern";
const K: Size = layer_size(
    |config, layer| Ok(groups(config, layer)?.saturating_mul(config.head_size()?)),
    GROUPS,
    "attention.head_count_kv",
);
const V: Size = layer_size(
    |config, layer| Ok(groups(config, layer)?.saturating_mul(config.needed("v_head_dim")?)),
    GROUPS,
    "attention.head_count_kv",
);
const OUTPUT: Size = size(
    |config| Ok(heads(config)?.saturating_mul(config.needed("v_head_dim")?)),
    "num_attention_heads, v_head_dim",
    "attention.head_count, attention.value_length",
);

/// Whether a layer has experts: `moe_layer_freq`, or all but the first; none for multi-token prediction.
fn is_sparse(config: &Config, layer: u64) -> Result<bool> {
    if layer >= config.layers()? {
        return Ok(false);
    }
    match config.count_of_layer("moe_layer_freq", layer)? {
        Some(frequency) => Ok(frequency != 0),
        None => Ok(layer > 0),
    }
}

const SPARSE_LAYER: Need = Need::When("moe_layer_freq", |config, layer| Ok(needed_if(is_sparse(config, layer)?)));
const DENSE_LAYER: Need = Need::When("moe_layer_freq", |config, layer| Ok(needed_if(!is_sparse(config, layer)?)));
const SINK: Need = Need::When("hybrid_layer_pattern", |_, _| Ok(Presence::Loose));

const TENSORS: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[K, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[V, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, OUTPUT]),
    layer("self_attn.attention_sink_bias", "attn_sinks.weight", &[HEADS]).when(SINK),
];

const FEED_FORWARD: &[Rule] = &[
    layer("mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(DENSE_LAYER),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(DENSE_LAYER),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(DENSE_LAYER),
];

const GATE_FIRST_EXPERTS_OF_MIMO: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE_LAYER),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE_LAYER),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE_LAYER),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE_LAYER),
];

const MIMO_CORRECTION: &[Rule] =
    &[layer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(SPARSE_LAYER)];

const KEYS: &[Key] = &[
    ints_fn("attention.head_count_kv", |config| config.per_layer(|layer| Ok(groups(config, layer)? as i32)).map(Some)),
    count("attention.sliding_window", &["sliding_window"]),
    ints_fn("attention.sliding_window_pattern", |config| {
        config.per_layer(|layer| Ok(i32::from(is_sliding(config, layer)?))).map(Some)
    }),
    count("attention.value_length", &["v_head_dim"]),
    count("expert_count", &["n_routed_experts"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    real_or("attention.layer_norm_rms_epsilon", &["layernorm_epsilon"], 1e-5),
    real("attention.value_scale", &["attention_value_scale"]),
];
