//! Granite with experts, with state-space layers, and with sliding windows; Bamba.

use super::granite::{self, KEYS as SCALED};
use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;
use serde_json::{Map, Value};

pub(super) static MOE: Architecture = Architecture {
    name: "granitemoe",
    classes: &[class("GraniteMoeForCausalLM", "granitemoe"), class("GraniteMoeSharedForCausalLM", "granitemoeshared")],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, SPLIT_EXPERTS, SHARED_MLP],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, SHARED_KEYS],
    tokenizer: TOKENS,
    restore: Some(restored),
    ..LLAMA
};

const TOKENS: TokenizerRules =
    TokenizerRules { pre: &[(PreTokenizer::Digits, "refact"), (PreTokenizer::Llama3, "dbrx")], ..LLAMA_LIKE };

/// The configuration of models with multipliers; the second class has shared experts.
fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    restore::plain(file, config)?;
    granite::restore_scales(file, config);
    Ok(usize::from(file.has_in_layers(&["ffn_gate_shexp.weight"])))
}

/// `head_dim` is not part of these models.
const NO_HEAD_SIZE: &[Key] = &[removed("attention.key_length"), removed("attention.value_length")];

fn experts(config: &Config) -> Result<bool> {
    Ok(config.count(&["num_local_experts"])?.unwrap_or(0) > 0)
}

const SPARSE: Need = Need::When("num_local_experts", |config, _| Ok(needed_if(experts(config)?)));
const SHARED: Need = Need::When("shared_intermediate_size, num_local_experts", |config, _| {
    let shared = config.count(&["shared_intermediate_size"])?.unwrap_or(0);
    Ok(needed_if(shared > 0 && experts(config)?))
});
/// Without experts, the shared MLP is the only one.
const DENSE: Need = Need::When("num_local_experts", |config, _| Ok(needed_if(!experts(config)?)));

const EXPERTS_FFN: Size = size(|config| config.needed("intermediate_size"), "intermediate_size", "feed_forward_length");
const SHARED_FFN: Size = size(
    |config| config.needed("shared_intermediate_size"),
    "shared_intermediate_size",
    "expert_shared_feed_forward_length",
);

const SPLIT_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.router.layer.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", &[EXPERT_COUNT, EXPERTS_FFN, HIDDEN])
        .with(&[Change::First(Halves::Rows)])
        .when(SPARSE),
    layer("block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", &[EXPERT_COUNT, EXPERTS_FFN, HIDDEN])
        .with(&[Change::Second(Halves::Rows)])
        .when(SPARSE),
    layer("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERTS_FFN])
        .when(SPARSE),
];

const SHARED_MLP: &[Rule] = &[
    layer("shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", &[SHARED_FFN, HIDDEN])
        .with(&[Change::First(Halves::Rows)])
        .when(SHARED),
    layer("shared_mlp.input_linear.weight", "ffn_up_shexp.weight", &[SHARED_FFN, HIDDEN])
        .with(&[Change::Second(Halves::Rows)])
        .when(SHARED),
    layer("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

const ONLY_MLP: &[Rule] = &[
    layer("shared_mlp.input_linear.weight", "ffn_gate.weight", &[SHARED_FFN, HIDDEN])
        .with(&[Change::First(Halves::Rows)])
        .when(DENSE),
    layer("shared_mlp.input_linear.weight", "ffn_up.weight", &[SHARED_FFN, HIDDEN])
        .with(&[Change::Second(Halves::Rows)])
        .when(DENSE),
    layer("shared_mlp.output_linear.weight", "ffn_down.weight", &[HIDDEN, SHARED_FFN]).when(DENSE),
];

const SHARED_KEYS: &[Key] = &[count_fn("expert_shared_feed_forward_length", |config| {
    Ok(config.count(&["shared_intermediate_size"])?.filter(|size| *size > 0))
})];

pub(super) static SWA: Architecture = Architecture {
    name: "granite_swa",
    classes: &[class("GraniteSWAForCausalLM", "granite_swa")],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED, SINKS],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, WINDOWS],
    tokenizer: TOKENS,
    restore: Some(restored),
    ..LLAMA
};

/// With experts, whose `gate_up_proj` stays one tensor.
pub(super) static MOE_SWA: Architecture = Architecture {
    name: "granite_swa",
    classes: &[class("GraniteMoeSWAForCausalLM", "granitemoe_swa")],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, FUSED_EXPERTS, SINKS],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, WINDOWS, SHARED_KEYS],
    tokenizer: TOKENS,
    restore: Some(restored),
    ..LLAMA
};

const SINKS: &[Rule] = &[layer("self_attn.sinks", "attn_sinks.weight", &[HEADS]).when(OPTIONAL)];

const TWO_EXPERTS_FFN: Size =
    size(|config| Ok((EXPERTS_FFN.of)(config)?.saturating_mul(2)), EXPERTS_FFN.hf, EXPERTS_FFN.gguf);
const TWO_SHARED_FFN: Size =
    size(|config| Ok((SHARED_FFN.of)(config)?.saturating_mul(2)), SHARED_FFN.hf, SHARED_FFN.gguf);

const FUSED_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.router.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.router.layer.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight", &[EXPERT_COUNT, TWO_EXPERTS_FFN, HIDDEN])
        .when(SPARSE),
    layer("block_sparse_moe.input_linear.weight", "ffn_gate_up_exps.weight", &[EXPERT_COUNT, TWO_EXPERTS_FFN, HIDDEN])
        .when(SPARSE),
    layer("block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERTS_FFN])
        .when(SPARSE),
    layer("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERTS_FFN])
        .when(SPARSE),
    layer("shared_mlp.input_linear.weight", "ffn_up_shexp.weight", &[TWO_SHARED_FFN, HIDDEN]).when(SHARED),
    layer("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

const WINDOWS: &[Key] = &[
    count_or("attention.sliding_window", &["sliding_window"], 128),
    flags_fn("attention.sliding_window_pattern", |config| match sliding_layers(config)? {
        Some(layers) => Ok(Some(layers)),
        None => config.per_layer(|layer| Ok(!layer.is_multiple_of(4))).map(Some),
    }),
    flags_fn("rope.pattern", |config| {
        let layers = config.counts("no_rope_layers")?.filter(|layers| !layers.is_empty());
        Ok(layers.map(|layers| layers.into_iter().map(|layer| layer != 0).collect()))
    }),
];

/// State-space and attention layers.
pub(super) static HYBRID: Architecture = Architecture {
    name: "granitehybrid",
    classes: HYBRID_CLASSES,
    applies: has_state_space,
    rules: &[EMBED_NORM_HEAD, NORMS, HYBRID_ATTENTION, STATE_SPACE, SPLIT_EXPERTS, SHARED_MLP, ONLY_MLP],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, SHARED_KEYS, HYBRID_KEYS],
    tokenizer: HYBRID_TOKENS,
    restore: Some(restored_hybrid),
    ..LLAMA
};

const HYBRID_CLASSES: &[Class] = &[class("GraniteMoeHybridForCausalLM", "granitemoehybrid")];

const HYBRID_TOKENS: TokenizerRules =
    TokenizerRules { pre: &[(PreTokenizer::Llama3, "dbrx")], fixed_padding: Some(8), ..PIECES_OR_BPE };

pub(super) static BAMBA_ONLY: Architecture = Architecture {
    name: "granitehybrid",
    classes: &[class("BambaForCausalLM", "bamba")],
    applies: has_state_space,
    rules: &[BAMBA, FFN_RULES, HYBRID_ATTENTION, STATE_SPACE],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, HYBRID_KEYS],
    tokenizer: TokenizerRules { fixed_padding: Some(8), ..PIECES_OR_BPE },
    restore: Some(|file, config| {
        restored_states(file, config);
        if let Some(dimensions) = file.count("rope.dimension_count") {
            set(config, "attn_rotary_emb", dimensions);
        }
        config.remove("layer_types");
        let heads = file.count_or_list("attention.head_count_kv");
        let heads = heads.as_ref().and_then(Value::as_array).into_iter().flatten().enumerate();
        let layers: Vec<usize> = heads.filter(|(_, heads)| heads.as_u64() > Some(0)).map(|(layer, _)| layer).collect();
        set(config, "attn_layer_indices", layers);
        Ok(0)
    }),
    ..LLAMA
};

/// Attention layers only, with and without experts.
pub(super) static ATTENTION_MOE: Architecture = Architecture {
    name: "granitemoe",
    classes: HYBRID_CLASSES,
    applies: |raw| !has_state_space(raw) && has_routing(raw),
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, SPLIT_EXPERTS, SHARED_MLP, ONLY_MLP],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, SHARED_KEYS, HYBRID_KEYS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "dbrx")], ..PIECES_OR_BPE },
    restore: Some(restored_hybrid),
    ..LLAMA
};

pub(super) static ATTENTION_ONLY: Architecture = Architecture {
    name: "granite",
    classes: HYBRID_CLASSES,
    applies: |raw| !has_state_space(raw) && !has_routing(raw),
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, SPLIT_EXPERTS, SHARED_MLP, ONLY_MLP],
    keys: &[COMMON, NO_HEAD_SIZE, SCALED, SHARED_KEYS, HYBRID_KEYS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "dbrx")], ..PIECES_OR_BPE },
    restore: Some(restored_hybrid),
    ..LLAMA
};

fn restored_hybrid(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    granite::restore_scales(file, config);
    restored_states(file, config);
    let has_states = file.has_in_layers(&["ssm_in.weight"]);
    set(config, "position_embedding_type", if has_states { "nope" } else { "rope" });
    if let Some(size) = file.count("expert_shared_feed_forward_length") {
        set(config, "shared_intermediate_size", size);
    }
    Ok(0)
}

/// The kinds of the layers, and the sizes and biases of state-space layers.
fn restored_states(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    restore::kinds_by_kv_heads(file, config, "layer_types", "attention", "mamba");
    if let (Some(inner), Some(width @ 1..), Some(heads @ 1..)) =
        (file.count("ssm.inner_size"), file.count("embedding_length"), file.count("ssm.time_step_rank"))
    {
        set(config, "mamba_expand", inner / width);
        set(config, "mamba_d_head", inner / heads);
    }
    set(config, "mamba_conv_bias", file.has_in_layers(&["ssm_conv1d.bias"]));
    set(config, "mamba_proj_bias", file.has_in_layers(&["ssm_in.bias", "ssm_out.bias"]));
}

fn has_routing(raw: &Map<String, Value>) -> bool {
    let count = raw.get("num_experts_per_tok").or_else(|| raw.get("num_experts_per_token"));
    count.and_then(Value::as_u64).unwrap_or(0) > 0
}

/// Whether any layer is a state-space layer, by the lists that these models have.
fn has_state_space(raw: &Map<String, Value>) -> bool {
    match raw.get("layer_types").and_then(Value::as_array) {
        Some(kinds) => kinds.iter().any(|kind| kind != "attention"),
        None => true,
    }
}

fn is_attention(config: &Config, layer: u64) -> Result<bool> {
    if let Some(kind) = config.text_of_layer("layer_types", layer)? {
        return Ok(kind == "attention");
    }
    if let Some(layers) = config.counts("attn_layer_indices")? {
        return Ok(layers.contains(&layer));
    }
    Ok(layer % config.divisor("attn_layer_period")? == config.needed("attn_layer_offset")?)
}

const LAYERS: &str = "layer_types, attn_layer_indices, attn_layer_period, attn_layer_offset";
const FULL: Need = Need::When(LAYERS, |config, layer| Ok(needed_if(is_attention(config, layer)?)));
const FULL_BIAS: Need = Need::When("layer_types, attention_bias", |config, layer| match is_attention(config, layer)? {
    true => flagged(config, "attention_bias"),
    false => Ok(Presence::Surplus),
});
const STATES: Need = Need::When(LAYERS, |config, layer| Ok(needed_if(!is_attention(config, layer)?)));
const STATES_OPTIONAL: Need = Need::When(LAYERS, |config, layer| {
    Ok(if is_attention(config, layer)? { Presence::Surplus } else { Presence::Allowed })
});

const HYBRID_ATTENTION: &[Rule] = {
    let [q, k, v, output] = attention(FULL_BIAS, FULL_BIAS);
    let (q_change, k_change) = (&[Change::Rotary("num_attention_heads")], &[Change::Rotary("num_key_value_heads")]);
    &[q.with(q_change).when(FULL), k.with(k_change).when(FULL), v.when(FULL), output.when(FULL)]
};

const BAMBA: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

const FFN_RULES: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("pre_ff_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("feed_forward.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("feed_forward.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]),
    layer("feed_forward.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const INNER: Size = size(
    |config| Ok(config.needed("mamba_expand")?.saturating_mul(config.needed("hidden_size")?)),
    "mamba_expand, hidden_size",
    "ssm.inner_size",
);
const STATE_HEADS: Size = size(|config| config.needed("mamba_n_heads"), "mamba_n_heads", "ssm.time_step_rank");
const GROUPS: Size = size(|config| config.divisor("mamba_n_groups"), "mamba_n_groups", "ssm.group_count");
const GROUP: Size = size(
    |config| Ok((INNER.of)(config)? / (GROUPS.of)(config)?),
    "mamba_n_groups, mamba_expand, hidden_size",
    "ssm.group_count, ssm.inner_size",
);
const KERNEL: Size = size(|config| config.needed("mamba_d_conv"), "mamba_d_conv", "ssm.conv_kernel");
const CONVOLVED: Size = size(
    |config| {
        let states = config.needed("mamba_n_groups")?.saturating_mul(config.needed("mamba_d_state")?);
        Ok((INNER.of)(config)?.saturating_add(states.saturating_mul(2)))
    },
    "mamba_expand, mamba_n_groups, mamba_d_state",
    "ssm.inner_size, ssm.group_count, ssm.state_size",
);
const INPUTS: Size = size(
    |config| {
        let values = (CONVOLVED.of)(config)?.saturating_add((INNER.of)(config)?);
        Ok(values.saturating_add((STATE_HEADS.of)(config)?))
    },
    "mamba_expand, mamba_n_groups, mamba_d_state, mamba_n_heads",
    "ssm.inner_size, ssm.group_count, ssm.state_size, ssm.time_step_rank",
);

const STATE_SPACE: &[Rule] = &[
    layer("mamba.in_proj.*", "ssm_in.*", &[INPUTS, HIDDEN]).when(STATES).biased(STATES_OPTIONAL),
    layer("mamba.conv1d.bias", "ssm_conv1d.bias", &[CONVOLVED]).when(STATES_OPTIONAL),
    layer("mamba.conv1d.weight", "ssm_conv1d.weight", &[CONVOLVED, KERNEL]).with(&[Change::WithoutMiddle]).when(STATES),
    layer("mamba.dt_bias", "ssm_dt.bias", &[STATE_HEADS]).when(STATES),
    layer("mamba.A_log", "ssm_a", &[STATE_HEADS, ONE])
        .with(&[Change::NegativeExponential, Change::Column])
        .when(STATES),
    layer("mamba.D", "ssm_d", &[STATE_HEADS, ONE]).with(&[Change::Column]).when(STATES),
    layer("mamba.norm.*", "ssm_norm.*", &[GROUPS, GROUP]).with(&[Change::Groups("mamba_n_groups")]).when(STATES),
    layer("mamba.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).when(STATES).biased(STATES_OPTIONAL),
];

fn is_bamba(config: &Config) -> Result<bool> {
    Ok(config.texts("architectures")?.is_some_and(|classes| classes.contains(&"BambaForCausalLM")))
}

/// Whether positions are rotated: in Bamba, and in models without state-space layers.
fn has_rope(config: &Config) -> Result<bool> {
    if is_bamba(config)? {
        return Ok(true);
    }
    Ok(config.per_layer(|layer| is_attention(config, layer))?.into_iter().all(|is_attention| is_attention))
}

const HYBRID_KEYS: &[Key] = &[
    count("ssm.conv_kernel", &["mamba_d_conv"]),
    count("ssm.state_size", &["mamba_d_state"]),
    count("ssm.group_count", &["mamba_n_groups"]),
    count_fn("ssm.inner_size", |config| (INNER.of)(config).map(Some)),
    count("ssm.time_step_rank", &["mamba_n_heads"]),
    count_fn("rope.dimension_count", |config| match config.count(&["attn_rotary_emb"])? {
        Some(dimensions @ 1..) => Ok(Some(dimensions)),
        _ => config.share_of_width().map(Some),
    }),
    ints_fn("attention.head_count_kv", |config| {
        let heads = kv_heads(config)? as i32;
        config.per_layer(|layer| Ok(if is_attention(config, layer)? { heads } else { 0 })).map(Some)
    }),
    flag_fn("rope.scaling.finetuned", |config| has_rope(config).map(Some)),
    count_fn("context_length", |config| match has_rope(config)? {
        true => Ok(None),
        false => Ok(Some(CONTEXT_LENGTH)),
    }),
];
