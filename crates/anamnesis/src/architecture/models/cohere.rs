//! Command R and Cohere 2 MoE.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static COMMAND_R: Architecture = Architecture {
    name: "command-r",
    classes: &[class("CohereForCausalLM", "cohere")],
    rules: &[EMBED_NORM_HEAD, ONE_NORM, ATTENTION, HEAD_NORMS, GATED_FFN],
    keys: &[COMMON, KEYS, UNSCALED],
    tokenizer: TOKENS,
    ..PLAIN
};

const TOKENS: TokenizerRules = TokenizerRules {
    pre: &[(PreTokenizer::Digits, "command-r")],
    classes: &[
        ("cohere", TokenizerClass::Registered("CohereTokenizer")),
        ("cohere2_moe", TokenizerClass::Registered("CohereTokenizer")),
    ],
    ..BPE
};

/// Attention and feed-forward network share a norm.
const ONE_NORM: &[Rule] = &[layer("input_layernorm.*", "attn_norm.*", &[HIDDEN])];

const KV_HEADS: Size = size(kv_heads, "num_key_value_heads", "attention.head_count_kv");

/// A norm for every head.
const HEAD_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEADS, HEAD_DIM]).when(Need::Flag("use_qk_norm")),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[KV_HEADS, HEAD_DIM]).when(Need::Flag("use_qk_norm")),
];

const KEYS: &[Key] =
    &[count("context_length", &["model_max_length", "max_position_embeddings"]), real("logit_scale", &["logit_scale"])];

const UNSCALED: &[Key] = &[text_fn("rope.scaling.type", |_| Ok(Some("none")))];

pub(super) static COHERE2MOE: Architecture = Architecture {
    name: "cohere2moe",
    classes: &[class("Cohere2MoeForCausalLM", "cohere2_moe")],
    rules: &[EMBED_NORM_HEAD, ONE_NORM, ATTENTION, LEADING_FFN, EXPERTS, SHARED_EXPERTS, NEXTN_TENSORS],
    keys: &[COMMON, MOE_KEYS, NEXTN_KEYS, &[ROPE_OF_HEAD], UNSCALED],
    tokenizer: TOKENS,
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..PLAIN
};

/// The feed-forward network of leading layers without experts.
const LEADING_FFN: &[Rule] = &[
    layer("mlp.gate_proj.*", "ffn_gate.*", &[LEADING, HIDDEN]).when(DENSE),
    layer("mlp.up_proj.*", "ffn_up.*", &[LEADING, HIDDEN]).when(DENSE),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, LEADING]).when(DENSE),
];

const LEADING: Size = size(
    |config| config.needed("prefix_dense_intermediate_size"),
    "prefix_dense_intermediate_size",
    "feed_forward_length",
);

const MOE_KEYS: &[Key] = &[
    removed("feed_forward_length"),
    count("feed_forward_length", &["prefix_dense_intermediate_size"]),
    real("logit_scale", &["logit_scale"]),
    count("attention.sliding_window", &["sliding_window"]),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
    count("vocab_size", &["vocab_size"]),
    count("expert_feed_forward_length", &["intermediate_size"]),
    count_fn("leading_dense_block_count", |config| match config.texts("mlp_layer_types")? {
        Some(kinds) => Ok(Some(kinds.iter().take_while(|kind| **kind == "dense").count() as u64)),
        None => Ok(Some(config.count(&["first_k_dense_replace"])?.unwrap_or(0))),
    }),
    flag_fn("expert_weights_norm", |config| Ok(Some(config.is_set("norm_topk_prob")?))),
    count_fn("expert_shared_count", |config| Ok(config.count(&["num_shared_experts"])?.filter(|count| *count > 0))),
    count_fn("expert_shared_feed_forward_length", |config| {
        let shared = config.count(&["num_shared_experts"])?.filter(|count| *count > 0);
        let inner = config.needed("intermediate_size")?;
        Ok(shared.map(|shared| shared.saturating_mul(inner)))
    }),
];
