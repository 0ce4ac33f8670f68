//! Hunyuan: dense, with vision, and Hy 3 with experts.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static DENSE_MODEL: Architecture = Architecture {
    name: "hunyuan-dense",
    classes: &[class("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK, GATED_FFN_BIASED],
    keys: &[COMMON, EXPERTS_NOT_COUNTED, DYNAMIC],
    tokenizer: TOKENS,
    head: Head::UnlessTied,
    ..PLAIN
};

pub(super) static VISION: Architecture = Architecture {
    name: "hunyuan_vl",
    classes: &[class("HunYuanVLForConditionalGeneration", "hunyuan_vl")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK, GATED_FFN_BIASED],
    keys: &[COMMON, EXPERTS_NOT_COUNTED, DYNAMIC_VISION],
    tokenizer: TOKENS,
    head: Head::UnlessTied,
    ..PLAIN
};

const TOKENS: TokenizerRules = TokenizerRules {
    pre: &[(PreTokenizer::DeepSeek3, "hunyuan-dense")],
    overrides: TokenOverrides { config_ids: &[("eos", "eod_token_id")], end_of_turn: true, ..NO_OVERRIDES },
    ..BPE
};

/// Norms of queries and keys, under names of their own.
const QK: &[Rule] = &[
    layer("self_attn.query_layernorm.*", "attn_q_norm.*", &[HEAD_DIM]).when(OPTIONAL),
    layer("self_attn.key_layernorm.*", "attn_k_norm.*", &[HEAD_DIM]).when(OPTIONAL),
];

const EXPERTS_NOT_COUNTED: &[Key] = &[removed("expert_count")];

/// The context of dynamic scaling, in tokens.
const LONG: u64 = 256 * 1024;

/// The kind of scaling with its own base.
fn scaled(config: &Config, also_sections: bool) -> Result<bool> {
    let has_sections = config.rope().reals("mrope_section")?.is_some();
    Ok(match config.rope().kind() {
        "dynamic" => has_sections == also_sections,
        "xdrope" => also_sections,
        _ => false,
    })
}

/// `rope_theta` times alpha to the power of d / (d - 2), with d dimensions per head.
fn base(config: &Config) -> Result<f64> {
    let alpha = config.rope().real("alpha")?.unwrap_or(50.0);
    let theta = config.rope().theta()?.unwrap_or(10_000.0);
    let size = config.needed("head_dim")? as f64;
    Ok(theta * alpha.powf(size / (size - 2.0)))
}

const DYNAMIC: &[Key] = &[
    real_fn("rope.freq_base", |config| match config.rope().kind() {
        "dynamic" | "xdrope" => base(config).map(Some),
        _ => config.rope().theta(),
    }),
    text_fn("rope.scaling.type", |config| Ok(matches!(config.rope().kind(), "dynamic" | "xdrope").then_some("none"))),
    real_fn("rope.scaling.factor", |config| Ok(matches!(config.rope().kind(), "dynamic" | "xdrope").then_some(1.0))),
    count_fn("rope.scaling.original_context_length", |config| Ok((config.rope().kind() == "dynamic").then_some(LONG))),
    count_fn("context_length", |config| Ok((config.rope().kind() == "dynamic").then_some(LONG))),
];

const DYNAMIC_VISION: &[Key] = &[
    real_fn("rope.freq_base", |config| match config.rope().kind() {
        "dynamic" if !scaled(config, true)? => base(config).map(Some),
        _ => config.rope().theta(),
    }),
    text_fn("rope.scaling.type", |config| Ok(matches!(config.rope().kind(), "dynamic" | "xdrope").then_some("none"))),
    real_fn("rope.scaling.factor", |config| match scaled(config, true)? {
        true => Ok(Some(config.rope().real("factor")?.unwrap_or(1.0))),
        false => Ok((config.rope().kind() == "dynamic").then_some(1.0)),
    }),
    real_fn("rope.scaling.alpha", |config| match scaled(config, true)? {
        true => config.rope().real("alpha"),
        false => Ok(None),
    }),
    count_fn("rope.scaling.original_context_length", |config| match scaled(config, true)? {
        true => config.count(&["max_position_embeddings"]),
        false => Ok((config.rope().kind() == "dynamic").then_some(LONG)),
    }),
    count_fn("context_length", |config| match scaled(config, true)? {
        true => config.count(&["max_position_embeddings"]),
        false => Ok((config.rope().kind() == "dynamic").then_some(LONG)),
    }),
];

pub(super) static HY3: Architecture = Architecture {
    name: "hy_v3",
    classes: &[class("HYV3ForCausalLM", "hy_v3")],
    renames: &[Rename::Anywhere(".final_layernorm.", ".shared_head.norm.")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, HY3_EXPERTS, NEXTN_TENSORS],
    keys: &[COMMON, HY3_KEYS, NEXTN_KEYS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::DeepSeek3, "hunyuan-dense")], ..BPE },
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    restore: Some(|file, config| {
        restore::plain(file, config)?;
        let is_sparse: Vec<bool> = restore::layers_with(file, "ffn_gate_inp.weight").collect();
        set(config, "mlp_layer_types", restore::kinds_by(&is_sparse, "sparse", "dense"));
        if let (Some(shared), Some(inner @ 1..)) =
            (file.count("expert_shared_feed_forward_length"), file.count("expert_feed_forward_length"))
        {
            config.remove("shared_intermediate_size");
            set(config, "num_shared_experts", shared / inner);
        }
        Ok(0)
    }),
    ..PLAIN
};

const HY3_EXPERTS: &[Rule] = &[
    layer("mlp.router.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.expert_bias", "exp_probs_b", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.shared_mlp.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_mlp.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_mlp.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

const HY3_KEYS: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count_fn("expert_shared_feed_forward_length", |config| {
        let shared = config.count(&["num_shared_experts"])?.unwrap_or(1);
        Ok(Some(config.needed("moe_intermediate_size")?.saturating_mul(shared)))
    }),
    flag_or("expert_weights_norm", "route_norm", true),
    real_or("expert_weights_scale", &["router_scaling_factor"], 1.0),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
];
