//! StarCoder 2: biases everywhere, a feed-forward network without a gate.

use serde_json::Value;

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "starcoder2",
    classes: &[Class {
        name: "Starcoder2ForCausalLM",
        model_type: "starcoder2",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(49152)),
                ("hidden_size", Count(3072)),
                ("intermediate_size", Count(12288)),
                ("num_hidden_layers", Count(30)),
                ("num_attention_heads", Count(24)),
                ("num_key_value_heads", Count(2)),
                ("max_position_embeddings", Count(4096)),
                ("norm_epsilon", Real(1e-5)),
                ("tie_word_embeddings", Flag(true)),
                ("use_bias", Flag(true)),
                ("rms_norm_eps", Absent),
            ],
        ],
    }],
    rules: &[TENSORS, ATTENTION],
    restore: Some(|file, config| {
        if let Some(epsilon) = config.remove("layer_norm_eps") {
            config.insert("norm_epsilon".to_owned(), epsilon);
        }
        set(config, "hidden_act", GELU);
        set(config, "use_bias", file.has_in_layers(&["attn_q.bias", "attn_k.bias", "attn_v.bias"]));
        set(config, "sliding_window", Value::Null);
        Ok(0)
    }),
    restore_note: Some("llama.cpp knows no window of attention for this architecture, and none is restored"),
    tokenizer: TokenizerRules { classes: &[("starcoder2", TokenizerClass::Registered("GPT2Tokenizer"))], ..BPE },
    ..DECODER
};

/// Biases of all modules but the norms, which always have them.
const BIAS: Need = Need::Flag("use_bias");

const ATTENTION: &[Rule] = &attention(BIAS, BIAS);

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).biased(Need::Always),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("mlp.c_fc.*", "ffn_up.*", &[FFN, HIDDEN]).biased(BIAS),
    layer("mlp.c_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(BIAS),
];
