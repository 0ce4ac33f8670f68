//! Jamba: state-space and attention layers, experts in every nth.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;
use serde_json::{Map, Value};

/// Jamba: state-space and attention layers, experts in every nth.
pub(super) static JAMBA: Architecture = Architecture {
    name: "jamba",
    classes: &[class("JambaForCausalLM", "jamba")],
    renames: &[Rename::Anywhere(".moe.", ".feed_forward.")],
    rules: &[JAMBA_TENSORS],
    keys: &[JAMBA_KEYS],
    tokenizer: TokenizerRules { pieces_in_json: true, no_space_prefix_in_json: true, ..PIECES_OR_BPE },
    restore: Some(restored),
    ..PLAIN
};

fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    for (kind, tensor) in [("attn", "attn_q.weight"), ("expert", "ffn_gate_inp.weight")] {
        if let Some((offset, period)) = restore::offset_and_period(file, tensor) {
            set(config, &format!("{kind}_layer_offset"), offset);
            set(config, &format!("{kind}_layer_period"), period);
        }
    }
    restore::most_kv_heads(file, config);
    for (key, name) in [
        ("ssm.conv_kernel", "mamba_d_conv"),
        ("ssm.state_size", "mamba_d_state"),
        ("ssm.time_step_rank", "mamba_dt_rank"),
    ] {
        if let Some(size) = file.count(key) {
            set(config, name, size);
        }
    }
    if let (Some(inner), Some(width @ 1..)) = (file.count("ssm.inner_size"), file.count("embedding_length")) {
        set(config, "mamba_expand", inner / width);
    }
    set(config, "mamba_conv_bias", file.has_in_layers(&["ssm_conv1d.bias"]));
    set(config, "mamba_proj_bias", file.has_in_layers(&["ssm_in.bias", "ssm_out.bias"]));
    Ok(0)
}

fn is_jamba_attention(config: &Config, layer: u64) -> Result<bool> {
    let (offset, period) = (config.needed("attn_layer_offset")?, config.divisor("attn_layer_period")?);
    Ok(layer >= offset && (layer - offset).is_multiple_of(period))
}

fn is_jamba_sparse(config: &Config, layer: u64) -> Result<bool> {
    let (offset, period) = (config.needed("expert_layer_offset")?, config.divisor("expert_layer_period")?);
    Ok(layer >= offset && (layer - offset).is_multiple_of(period))
}

const ATTN: &str = "attn_layer_offset, attn_layer_period";

const JAMBA_FULL: Need = Need::When(ATTN, |config, layer| Ok(needed_if(is_jamba_attention(config, layer)?)));

const JAMBA_STATES: Need = Need::When(ATTN, |config, layer| Ok(needed_if(!is_jamba_attention(config, layer)?)));

const JAMBA_STATES_OPTIONAL: Need = Need::When(ATTN, |config, layer| {
    Ok(if is_jamba_attention(config, layer)? { Presence::Surplus } else { Presence::Allowed })
});

const EXPERT_LAYERS: &str = "expert_layer_offset, expert_layer_period";

const JAMBA_SPARSE: Need = Need::When(EXPERT_LAYERS, |config, layer| Ok(needed_if(is_jamba_sparse(config, layer)?)));

const JAMBA_DENSE: Need = Need::When(EXPERT_LAYERS, |config, layer| Ok(needed_if(!is_jamba_sparse(config, layer)?)));

const JAMBA_INNER: Size = size(
    |config| Ok(config.needed("mamba_expand")?.saturating_mul(config.needed("hidden_size")?)),
    "mamba_expand, hidden_size",
    "ssm.inner_size",
);

const TWO_JAMBA_INNER: Size =
    size(|config| Ok((JAMBA_INNER.of)(config)?.saturating_mul(2)), JAMBA_INNER.hf, JAMBA_INNER.gguf);

const JAMBA_STATE: Size = size(jamba_state, "mamba_d_state", "ssm.state_size");

const JAMBA_RANK: Size = size(jamba_rank, "mamba_dt_rank", "ssm.time_step_rank");

const JAMBA_KERNEL: Size =
    size(|config| Ok(config.count(&["mamba_d_conv"])?.unwrap_or(4)), "mamba_d_conv", "ssm.conv_kernel");

const JAMBA_X: Size = size(
    |config| Ok(jamba_state(config)?.saturating_mul(2).saturating_add(jamba_rank(config)?)),
    "mamba_d_state, mamba_dt_rank",
    "ssm.state_size, ssm.time_step_rank",
);

fn jamba_state(config: &Config) -> Result<u64> {
    Ok(config.count(&["mamba_d_state"])?.filter(|size| *size > 0).unwrap_or(16))
}

fn jamba_rank(config: &Config) -> Result<u64> {
    match config.get("mamba_dt_rank") {
        Some(Value::Number(_)) => config.needed("mamba_dt_rank"),
        _ => Ok(config.needed("hidden_size")?.div_ceil(16)),
    }
}

const JAMBA_EXPERTS_UP: &[Size] = &[EXPERT_COUNT, FFN, HIDDEN];

const JAMBA_EXPERTS_DOWN: &[Size] = &[EXPERT_COUNT, HIDDEN, FFN];

const JAMBA_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("pre_ff_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("pre_moe_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(JAMBA_FULL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(JAMBA_FULL),
    layer("mamba.in_proj.*", "ssm_in.*", &[TWO_JAMBA_INNER, HIDDEN]).when(JAMBA_STATES).biased(JAMBA_STATES_OPTIONAL),
    layer("mamba.conv1d.bias", "ssm_conv1d.bias", &[JAMBA_INNER]).when(JAMBA_STATES_OPTIONAL),
    layer("mamba.conv1d.weight", "ssm_conv1d.weight", &[JAMBA_INNER, JAMBA_KERNEL])
        .with(&[Change::WithoutMiddle])
        .when(JAMBA_STATES),
    layer("mamba.x_proj.*", "ssm_x.*", &[JAMBA_X, JAMBA_INNER]).when(JAMBA_STATES),
    layer("mamba.dt_proj.*", "ssm_dt.*", &[JAMBA_INNER, JAMBA_RANK]).when(JAMBA_STATES).biased(JAMBA_STATES),
    layer("mamba.A_log", "ssm_a", &[JAMBA_INNER, JAMBA_STATE]).with(&[Change::NegativeExponential]).when(JAMBA_STATES),
    layer("mamba.D", "ssm_d", &[JAMBA_INNER]).when(JAMBA_STATES),
    layer("mamba.dt_layernorm.*", "ssm_dt_norm.*", &[JAMBA_RANK]).when(JAMBA_STATES),
    layer("mamba.b_layernorm.*", "ssm_b_norm.*", &[JAMBA_STATE]).when(JAMBA_STATES),
    layer("mamba.c_layernorm.*", "ssm_c_norm.*", &[JAMBA_STATE]).when(JAMBA_STATES),
    layer("mamba.out_proj.*", "ssm_out.*", &[HIDDEN, JAMBA_INNER]).when(JAMBA_STATES).biased(JAMBA_STATES_OPTIONAL),
    layer("feed_forward.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.gate_proj.weight", "ffn_gate.weight", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.up_proj.weight", "ffn_up.weight", &[FFN, HIDDEN]).when(JAMBA_DENSE),
    layer("feed_forward.experts.0.down_proj.weight", "ffn_down.weight", &[HIDDEN, FFN]).when(JAMBA_DENSE),
    layer("feed_forward.router.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.down_proj.weight", "ffn_down_exps.weight", JAMBA_EXPERTS_DOWN).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", JAMBA_EXPERTS_UP).when(JAMBA_SPARSE),
    layer("feed_forward.experts.{X}.up_proj.weight", "ffn_up_exps.weight", JAMBA_EXPERTS_UP).when(JAMBA_SPARSE),
];

const JAMBA_KEYS: &[Key] = &[
    count("block_count", LAYER_KEYS),
    count("context_length", &["max_position_embeddings", "n_ctx"]),
    count("embedding_length", &["hidden_size", "mamba_d_model"]),
    count("feed_forward_length", &["intermediate_size"]),
    count("attention.head_count", &["num_attention_heads"]),
    ints_fn("attention.head_count_kv", |config| {
        let heads = config.needed("num_key_value_heads")? as i32;
        config.per_layer(|layer| Ok(if is_jamba_attention(config, layer)? { heads } else { 0 })).map(Some)
    }),
    count_fn("ssm.conv_kernel", |config| (JAMBA_KERNEL.of)(config).map(Some)),
    count_fn("ssm.inner_size", |config| (JAMBA_INNER.of)(config).map(Some)),
    count_fn("ssm.state_size", |config| jamba_state(config).map(Some)),
    count_fn("ssm.time_step_rank", |config| jamba_rank(config).map(Some)),
    real_or("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"], 1e-6),
    count("expert_count", &["num_local_experts", "num_experts"]),
    count("expert_used_count", &["num_experts_per_tok", "num_experts_per_token"]),
    FILE_TYPE,
];
