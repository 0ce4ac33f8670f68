//! Qwen 2 with experts, one of them for all tokens.

use serde_json::{Map, Value};

use super::config::DefaultValue;
use super::gguf::Gguf;
use super::key::{COMMON, Key, count};
use super::kind::{Architecture, Class, Head, USUAL};
use super::need::Need;
use super::rule::{AROUND, EXPERTS, GATED, NORMS, Rule, SHARED_EXPERT, layer};
use super::size::{KEYS, QUERIES, WIDTH};
use super::tokenizer::Family;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen2moe",
    classes: &[Class {
        name: "Qwen2MoeForCausalLM",
        model_type: "qwen2_moe",
        defaults: &[
            ("vocab_size", DefaultValue::Count(151_936)),
            ("hidden_size", DefaultValue::Count(2048)),
            ("intermediate_size", DefaultValue::Count(5632)),
            ("num_hidden_layers", DefaultValue::Count(24)),
            ("num_attention_heads", DefaultValue::Count(16)),
            ("num_key_value_heads", DefaultValue::Count(16)),
            ("max_position_embeddings", DefaultValue::Count(32768)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("num_experts", DefaultValue::Count(60)),
            ("num_experts_per_tok", DefaultValue::Count(4)),
            ("moe_intermediate_size", DefaultValue::Count(1408)),
            ("shared_expert_intermediate_size", DefaultValue::Count(5632)),
            ("qkv_bias", DefaultValue::Flag(true)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, GATED, EXPERTS, SHARED_EXPERT],
    keys: &[COMMON, EXPERT_SIZES],
    family: Family::Qwen,
    restore: |file, config| {
        config.remove("attention_bias");
        config.insert("qkv_bias".to_owned(), file.has_in_layers(&["attn_q.bias", "attn_k.bias", "attn_v.bias"]).into());
        restore_experts(file, config, false)
    },
    head: Head::Always,
    ..USUAL
};

/// The biases of queries, keys and values have a flag of their own.
const QKV_BIAS: Need = Need::Flag("qkv_bias");

const ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH]).biased(QKV_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH]).biased(QKV_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(QKV_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]),
];

/// The sizes of experts.
pub(super) const EXPERT_SIZES: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
];

/// What the configuration tells of experts besides their sizes: whether their weights are made to sum to one, and which layers
/// have none.
pub(super) fn restore_experts(file: &Gguf<'_>, config: &mut Map<String, Value>, is_normed: bool) -> Result<usize> {
    if let Some(experts) = file.count("expert_count") {
        config.insert("num_experts".to_owned(), experts.into());
    }
    config.insert("norm_topk_prob".to_owned(), is_normed.into());
    config.insert("decoder_sparse_step".to_owned(), 1.into());
    let of_experts = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    let dense = |layer: &u64| of_experts.iter().all(|name| !file.has(&format!("blk.{layer}.{name}.weight")));
    let dense: Vec<u64> = (0..file.count("block_count").unwrap_or(0)).filter(dense).collect();
    config.insert("mlp_only_layers".to_owned(), dense.into());
    config.insert("use_sliding_window".to_owned(), false.into());
    Ok(0)
}
