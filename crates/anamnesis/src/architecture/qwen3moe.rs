//! Qwen 3 with experts.

use super::config::Default;
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
            ("vocab_size", Default::Count(151_936)),
            ("hidden_size", Default::Count(2048)),
            ("intermediate_size", Default::Count(6144)),
            ("num_hidden_layers", Default::Count(24)),
            ("num_attention_heads", Default::Count(32)),
            ("num_key_value_heads", Default::Count(4)),
            ("max_position_embeddings", Default::Count(32768)),
            ("rms_norm_eps", Default::Real(1e-6)),
            ("num_experts", Default::Same("num_local_experts")),
            ("num_experts_per_tok", Default::Count(8)),
            ("moe_intermediate_size", Default::Count(768)),
            ("rope_theta", Default::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, QK_NORMS, GATED, EXPERTS],
    keys: &[COMMON, EXPERT_SIZES],
    family: Family::Qwen,
    restore: |file, config| restore_experts(file, config, true),
    ..USUAL
};
