//! Kimi K3: Kimi Linear with gated latent attention, experts in a space of fewer dimensions, and scores of earlier layers.
//!
//! Experts of compressed-tensors' MXFP4 keep their codes. The vision tower is left out.

use super::kimi::{
    ATTENTION_OF_BOTH, DELTA, DELTA_DIM, DELTA_KEYS, HYBRID_KEYS, KIMI_EXPERTS, LATENT, LINEAR, cached, is_linear,
    key_length,
};
use crate::architecture::families::PLAIN;
use crate::architecture::latent::{KV_RANK, V_DIM};
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "kimi-k3",
    classes: &[class("KimiK3ForConditionalGeneration", "kimi_k3")],
    rules: &[
        EMBED_NORM_HEAD,
        NORMS,
        RESIDUAL_SCORES,
        ATTENTION_OF_BOTH,
        DELTA,
        GATES,
        LATENT,
        GATED_FFN,
        KIMI_EXPERTS,
        LATENT_EXPERTS,
    ],
    keys: &[COMMON, HYBRID_KEYS, DELTA_KEYS, KEYS],
    tokenizer: TokenizerRules {
        overrides: TokenOverrides {
            config_ids: &[("eos", "eos_token_id")],
            unwritten_template: Some("Kimi-K3.jinja"),
            ..NO_OVERRIDES
        },
        ..BPE_OR_RANKS_WITH_END
    },
    dropped: &["mm_projector."],
    blocks_by_layer: true,
    restore: None,
    not_held: Some("the norms and projections whose products are its residual scores"),
    ..PLAIN
};

const TWO: Size = size(|_| Ok(2), "", "");
const SCORES: &[Change] = &[Change::Shaped(&[TWO, HIDDEN], &[TWO, HIDDEN]), Change::Product];

/// The weights of a norm, each multiplied by that of the projection after it.
const RESIDUAL_SCORES: &[Rule] = &[
    layer("self_attention_res_{norm|proj}.weight", "attn_res_score.weight", &[HIDDEN]).with(SCORES),
    layer("mlp_res_{norm|proj}.weight", "ffn_res_score.weight", &[HIDDEN]).with(SCORES),
    model("model.output_attn_res_{norm|proj}.weight", "output_res_score.weight", &[HIDDEN]).with(SCORES),
];

/// The gate of the attention's output, in models that have one.
const FULL_GATE: Need = Need::When("linear_attn_config.full_attn_layers", |config, layer| {
    Ok(if is_linear(config, layer)? { Presence::Surplus } else { Presence::Allowed })
});

const GATES: &[Rule] = &[
    layer("self_attn.g_proj.weight", "ssm_g.weight", &[DELTA_DIM, HIDDEN]).when(LINEAR),
    layer("self_attn.g_proj.weight", "attn_gate.weight", &[V_DIM, HIDDEN]).when(FULL_GATE),
    layer("self_attn.A_log", "ssm_a", &[HEADS]).with(&[Change::NegativeExponential]).when(LINEAR),
];

/// The hidden size of routed experts.
const LATENT_KEY: &str = "routed_expert_hidden_size";
const EXPERT_WIDTH: Size = size(
    |config| match config.count(&[LATENT_KEY])? {
        Some(width) => Ok(width),
        None => first(config, HIDDEN_KEYS),
    },
    "routed_expert_hidden_size, hidden_size",
    "expert_latent_length, embedding_length",
);
const PROJECTED: Need = Need::When(LATENT_KEY, |config, layer| {
    Ok(needed_if(config.get(LATENT_KEY).is_some() && has_experts(config, layer)?))
});
const PROJECTED_NORM: Need = Need::When(LATENT_KEY, |config, layer| {
    let may_be = config.get(LATENT_KEY).is_some() && has_experts(config, layer)?;
    Ok(if may_be { Presence::Allowed } else { Presence::Surplus })
});

const UP: &[Size] = &[EXPERT_COUNT, EXPERT_FFN, EXPERT_WIDTH];
const DOWN: &[Size] = &[EXPERT_COUNT, EXPERT_WIDTH, EXPERT_FFN];

const LATENT_EXPERTS: &[Rule] = &[
    layer("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w1.weight", "ffn_gate_exps.weight", UP).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w2.weight", "ffn_down_exps.weight", DOWN).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w3.weight", "ffn_up_exps.weight", UP).when(SPARSE),
    layer("block_sparse_moe.routed_expert_down_proj.weight", "ffn_routed_down.weight", &[EXPERT_WIDTH, HIDDEN])
        .when(PROJECTED),
    layer("block_sparse_moe.routed_expert_up_proj.weight", "ffn_routed_up.weight", &[HIDDEN, EXPERT_WIDTH])
        .when(PROJECTED),
    layer("block_sparse_moe.routed_expert_norm.weight", "ffn_routed_norm.weight", &[EXPERT_WIDTH]).when(PROJECTED_NORM),
];

const KEYS: &[Key] = &[
    real("kda.gate_lower_bound", &["linear_attn_config.gate_lower_bound"]),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    needed("attention.kv_lora_rank", "kv_lora_rank"),
    count_fn("rope.dimension_count", |config| match config.is_set("mla_use_nope")? {
        true => config.needed("qk_rope_head_dim").map(Some),
        false => Err(AnamnesisError::parse("config.json: \"mla_use_nope\": true is needed")),
    }),
    count_fn("attention.key_length", cached),
    count_fn("attention.value_length", |config| (KV_RANK.of)(config).map(Some)),
    count_fn("attention.key_length_mla", key_length),
    needed("attention.value_length_mla", "v_head_dim"),
    needed("expert_feed_forward_length", "moe_intermediate_size"),
    needed("expert_shared_count", "num_shared_experts"),
    needed("leading_dense_block_count", "first_k_dense_replace"),
    needed_real("expert_weights_scale", "routed_scaling_factor"),
    flag_fn("expert_weights_norm", |config| match config.flag("moe_renormalize")? {
        None => Err(AnamnesisError::parse("config.json has no \"moe_renormalize\"")),
        norm => Ok(norm),
    }),
    count_fn("expert_gating_func", |config| of_kind(config, "moe_router_activation_func", "sigmoid").map(|()| None)),
    count("expert_latent_length", &[LATENT_KEY]),
    real_fn("activation.situ_beta", |config| {
        of_kind(config, "hidden_act", "situ")?;
        config.needed_real("activation_situ_beta").map(Some)
    }),
    needed_real("activation.situ_linear_beta", "activation_situ_linear_beta"),
    needed("attn_res.block_size", "attn_res_block_size"),
];

/// Refuses another kind than the one that llama.cpp has for this architecture.
fn of_kind(config: &Config, key: &str, needed: &str) -> Result<()> {
    match config.text(key)? {
        Some(kind) if kind == needed => Ok(()),
        kind => {
            let kind = kind.unwrap_or("absent");
            Err(AnamnesisError::parse(format!("config.json: \"{key}\" is {kind}, {needed} is needed")))
        }
    }
}
