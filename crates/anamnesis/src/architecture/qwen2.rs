//! Qwen 2 and 2.5.

use super::config::DefaultValue;
use super::kind::{Architecture, Class, USUAL};
use super::need::Need;
use super::rule::{AROUND, GATED, NORMS, Rule, layer};
use super::size::{KEYS, QUERIES, WIDTH};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen2",
    classes: &[Class {
        name: "Qwen2ForCausalLM",
        model_type: "qwen2",
        defaults: &[
            ("vocab_size", DefaultValue::Count(151_936)),
            ("hidden_size", DefaultValue::Count(4096)),
            ("intermediate_size", DefaultValue::Count(22016)),
            ("num_hidden_layers", DefaultValue::Count(32)),
            ("num_attention_heads", DefaultValue::Count(32)),
            ("num_key_value_heads", DefaultValue::Count(32)),
            ("max_position_embeddings", DefaultValue::Count(32768)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, GATED],
    family: Family::Qwen,
    restore: |_, config| {
        config.insert("use_sliding_window".to_owned(), false.into());
        config.remove("attention_bias");
        Ok(0)
    },
    ..USUAL
};

/// Queries, keys and values always have biases.
const ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH]).biased(Need::Always),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH]).biased(Need::Always),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(Need::Always),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]),
];
