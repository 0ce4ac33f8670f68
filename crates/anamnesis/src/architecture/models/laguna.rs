//! Laguna and Spark 2.5: gated attention.

use crate::architecture::families::{PLAIN, QWEN3_MOE};
use crate::architecture::prelude::*;
use serde_json::Value;

/// Laguna: gated attention, heads by layer.
pub(super) static LAGUNA: Architecture = Architecture {
    name: "laguna",
    classes: &[class("LagunaForCausalLM", "laguna")],
    rules: &[EMBED_NORM_HEAD, NORMS, LAGUNA_ATTENTION, QK_NORMS, GATED_FFN, LAGUNA_EXPERTS, LAGUNA_SHARED],
    keys: &[COMMON, LAGUNA_KEYS],
    tokenizer: TokenizerRules {
        control_tokens: &["</assistant>"],
        overrides: TokenOverrides { other_end: true, ..NO_OVERRIDES },
        ..BPE
    },
    ..QWEN3_MOE
};

fn laguna_heads(config: &Config, layer: u64) -> Result<u64> {
    match config.count_of_layer("num_attention_heads_per_layer", layer)? {
        Some(heads) => Ok(heads),
        None => heads(config),
    }
}

const HEADS_BY_LAYER: &str = "num_attention_heads_per_layer, num_attention_heads, head_dim";

const LAGUNA_Q: Size = layer_size(
    |config, layer| Ok(laguna_heads(config, layer)?.saturating_mul(config.head_size()?)),
    HEADS_BY_LAYER,
    "attention.head_count",
);

/// A gate per head or per value.
const LAGUNA_GATE: Size = layer_size(
    |config, layer| {
        let kind = match config.text_of_layer("gating_types", layer)? {
            Some(kind) => kind,
            None => config.get("gating").and_then(Value::as_str).unwrap_or("per-head"),
        };
        let heads = laguna_heads(config, layer)?;
        Ok(if kind.replace('-', "_") == "per_element" { heads.saturating_mul(config.head_size()?) } else { heads })
    },
    "num_attention_heads_per_layer, num_attention_heads, gating, gating_types",
    "attention.head_count",
);

const LAGUNA_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[LAGUNA_Q, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, LAGUNA_Q]).biased(OPTIONAL),
    layer("self_attn.g_proj.*", "attn_gate.*", &[LAGUNA_GATE, HIDDEN]),
];

const LAGUNA_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
];

const LAGUNA_SHARED: &[Rule] = &[
    layer("mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

const LAGUNA_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    ints_fn("attention.head_count", |config| {
        config.per_layer(|layer| Ok(laguna_heads(config, layer)? as i32)).map(Some)
    }),
    count_fn("attention.sliding_window", |config| Ok(config.count(&["sliding_window"])?.filter(|window| *window > 0))),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
    flag_fn("expert_weights_norm", |_| Ok(Some(true))),
    real("expert_weights_scale", &["moe_routed_scaling_factor"]),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
    count_fn("leading_dense_block_count", |config| {
        let kinds = config.texts("mlp_layer_types")?.unwrap_or_default();
        Ok(Some(kinds.iter().take_while(|kind| **kind == "dense").count() as u64))
    }),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count_fn("rope.dimension_count_swa", sliding_dimensions),
];

/// The dimensions that RoPE rotates in sliding-window layers.
fn sliding_dimensions(config: &Config) -> Result<Option<u64>> {
    if !config.rope().has_sliding() {
        return Ok(None);
    }
    let part = config.rope().sliding_real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((config.head_size()? as f64 * part) as u64))
}

/// Spark 2.5: a fused `q_k_v_proj` with a gate per head.
pub(super) static SPARK: Architecture = Architecture {
    name: "spark2_5",
    classes: &[class("Spark2_5ForCausalLM", "spark2_5")],
    rules: &[EMBED_NORM_HEAD, NORMS, SPARK_ATTENTION, GATED_FFN],
    keys: &[COMMON, SPARK_KEYS],
    ..PLAIN
};

const SPARK_ATTENTION: &[Rule] = &[
    layer("self_attn.q_k_v_proj.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]),
    layer("self_attn.g_proj.*", "attn_gate.*", &[HEADS, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
];

const SPARK_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count_fn("rope.dimension_count_swa", sliding_dimensions),
];
