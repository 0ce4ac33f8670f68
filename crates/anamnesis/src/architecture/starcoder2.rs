//! StarCoder 2: biases everywhere, and no gate.

use serde_json::Value;

use super::config::DefaultValue;
use super::gemma::GELU;
use super::kind::{Architecture, Class, USUAL};
use super::need::{Need, UNTIED};
use super::rule::{Rule, layer, model};
use super::size::{INNER, KEYS, QUERIES, VOCABULARY, WIDTH};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "starcoder2",
    classes: &[Class {
        name: "Starcoder2ForCausalLM",
        model_type: "starcoder2",
        defaults: &[
            ("vocab_size", DefaultValue::Count(49152)),
            ("hidden_size", DefaultValue::Count(3072)),
            ("intermediate_size", DefaultValue::Count(12288)),
            ("num_hidden_layers", DefaultValue::Count(30)),
            ("num_attention_heads", DefaultValue::Count(24)),
            ("num_key_value_heads", DefaultValue::Count(2)),
            ("max_position_embeddings", DefaultValue::Count(4096)),
            ("norm_epsilon", DefaultValue::Real(1e-5)),
            ("tie_word_embeddings", DefaultValue::Flag(true)),
            ("use_bias", DefaultValue::Flag(true)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[TENSORS],
    restore: |file, config| {
        if let Some(epsilon) = config.remove("layer_norm_eps") {
            config.insert("norm_epsilon".to_owned(), epsilon);
        }
        config.insert("hidden_act".to_owned(), GELU.into());
        config.insert("use_bias".to_owned(), file.has_in_layers(&["attn_q.bias", "attn_k.bias", "attn_v.bias"]).into());
        config.insert("sliding_window".to_owned(), Value::Null);
        Ok(0)
    },
    lost: Some("llama.cpp knows no window of attention for this architecture, and none is restored"),
    ..USUAL
};

/// The biases of everything but norms, which always have them.
const BIAS: Need = Need::Flag("use_bias");

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCABULARY, WIDTH]),
    model("model.norm.*", "output_norm.*", &[WIDTH]).biased(Need::Always),
    model("lm_head.*", "output.*", &[VOCABULARY, WIDTH]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[WIDTH]).biased(Need::Always),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[WIDTH]).biased(Need::Always),
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH]).biased(BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH]).biased(BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]).biased(BIAS),
    layer("mlp.c_fc.*", "ffn_up.*", &[INNER, WIDTH]).biased(BIAS),
    layer("mlp.c_proj.*", "ffn_down.*", &[WIDTH, INNER]).biased(BIAS),
];
