//! StarCoder 2: biases everywhere, and no gate.

use serde_json::Value;

use super::config::Default;
use super::gemma::GELU;
use super::kind::{Architecture, Class, USUAL};
use super::rule::{AROUND, ATTENTION, NORMS, Rule, layer};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "starcoder2",
    classes: &[Class {
        name: "Starcoder2ForCausalLM",
        model_type: "starcoder2",
        defaults: &[
            ("vocab_size", Default::Count(49152)),
            ("hidden_size", Default::Count(3072)),
            ("intermediate_size", Default::Count(12288)),
            ("num_hidden_layers", Default::Count(30)),
            ("num_attention_heads", Default::Count(24)),
            ("num_key_value_heads", Default::Count(2)),
            ("max_position_embeddings", Default::Count(4096)),
            ("norm_epsilon", Default::Real(1e-5)),
            ("tie_word_embeddings", Default::Flag(true)),
            ("rope_theta", Default::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, FEED_FORWARD],
    restore: |file, config| {
        if let Some(epsilon) = config.remove("layer_norm_eps") {
            config.insert("norm_epsilon".to_owned(), epsilon);
        }
        config.insert("hidden_act".to_owned(), GELU.into());
        config.insert("use_bias".to_owned(), file.has("blk.0.attn_q.bias").into());
        config.insert("sliding_window".to_owned(), Value::Null);
        Ok(0)
    },
    lost: Some("llama.cpp knows no window of attention for this architecture, and none is restored"),
    ..USUAL
};

const FEED_FORWARD: &[Rule] = &[layer("mlp.c_fc.*", "ffn_up.*"), layer("mlp.c_proj.*", "ffn_down.*")];
