//! Qwen 3 with experts.

use super::config::DefaultValue;
use super::key::COMMON;
use super::kind::{Architecture, Class, USUAL};
use super::qwen2moe::{EXPERT_SIZES, restore_experts};
use super::rule::{AROUND, ATTENTION, EXPERTS, GATED, NORMS, QK_NORMS};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3moe",
    classes: &[Class {
        name: "Qwen3MoeForCausalLM",
        model_type: "qwen3_moe",
        defaults: &[
            ("vocab_size", DefaultValue::Count(151_936)),
            ("hidden_size", DefaultValue::Count(2048)),
            ("intermediate_size", DefaultValue::Count(6144)),
            ("num_hidden_layers", DefaultValue::Count(24)),
            ("num_attention_heads", DefaultValue::Count(32)),
            ("num_key_value_heads", DefaultValue::Count(4)),
            ("max_position_embeddings", DefaultValue::Count(32768)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("num_experts", DefaultValue::Same("num_local_experts")),
            ("num_experts_per_tok", DefaultValue::Count(8)),
            ("moe_intermediate_size", DefaultValue::Count(768)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, QK_NORMS, GATED, EXPERTS],
    keys: &[COMMON, EXPERT_SIZES],
    family: Family::Qwen,
    restore: |file, config| restore_experts(file, config, true),
    ..USUAL
};
