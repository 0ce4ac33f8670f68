//! Qwen 3: queries and keys have norms.

use super::config::DefaultValue;
use super::kind::{Architecture, Class, USUAL};
use super::rule::{AROUND, ATTENTION, GATED, NORMS, QK_NORMS};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    classes: &[Class {
        name: "Qwen3ForCausalLM",
        model_type: "qwen3",
        defaults: &[
            ("vocab_size", DefaultValue::Count(151_936)),
            ("hidden_size", DefaultValue::Count(4096)),
            ("intermediate_size", DefaultValue::Count(22016)),
            ("num_hidden_layers", DefaultValue::Count(32)),
            ("num_attention_heads", DefaultValue::Count(32)),
            ("num_key_value_heads", DefaultValue::Count(32)),
            ("head_dim", DefaultValue::Count(128)),
            ("max_position_embeddings", DefaultValue::Count(32768)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, QK_NORMS, GATED],
    family: Family::Qwen,
    restore: |_, config| {
        config.insert("use_sliding_window".to_owned(), false.into());
        Ok(0)
    },
    other_kinds: &["qwen3-reranker", "qwen3-vl-reranker"],
    ..USUAL
};
