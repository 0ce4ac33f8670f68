//! Gemma: norms are stored without the one that is added to them, and the embedding is the head.

use super::change::Change;
use super::config::DefaultValue;
use super::key::{CONTEXT, FILE_TYPE, HEADS, INNER, KV_HEADS, Key, LAYERS, RMS_EPSILON, WIDTH, count, real};
use super::kind::{Architecture, Class, Head, USUAL};
use super::rule::{ATTENTION, GATED, Rule, layer, model};
use super::size::{VOCABULARY, WIDTH as MODEL_WIDTH};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma",
    classes: &[Class {
        name: "GemmaForCausalLM",
        model_type: "gemma",
        defaults: &[
            ("vocab_size", DefaultValue::Count(256_000)),
            ("hidden_size", DefaultValue::Count(3072)),
            ("intermediate_size", DefaultValue::Count(24576)),
            ("num_hidden_layers", DefaultValue::Count(28)),
            ("num_attention_heads", DefaultValue::Count(16)),
            ("num_key_value_heads", DefaultValue::Count(16)),
            ("head_dim", DefaultValue::Count(256)),
            ("max_position_embeddings", DefaultValue::Count(8192)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("tie_word_embeddings", DefaultValue::Flag(true)),
        ],
    }],
    rules: &[AROUND, NORMS, ATTENTION, GATED],
    keys: &[SIZES],
    family: Family::Gemma,
    head: Head::Never,
    restore: |_, config| {
        config.insert("hidden_activation".to_owned(), GELU.into());
        config.insert("hidden_act".to_owned(), GELU.into());
        Ok(0)
    },
    ..USUAL
};

/// The function between the layers of feed-forward, by its name in configurations.
pub(super) const GELU: &str = "gelu_pytorch_tanh";

/// The tensors around the layers.
pub(super) const AROUND: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCABULARY, MODEL_WIDTH]),
    model("model.norm.*", "output_norm.*", &[MODEL_WIDTH]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCABULARY, MODEL_WIDTH]).left_out(),
];

const NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[MODEL_WIDTH]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[MODEL_WIDTH]).with(&[Change::PlusOne]),
];

/// What Gemma 1 and 2 tell, in the order of the file.
pub(super) const SIZES: &[Key] = &[
    count("context_length", CONTEXT),
    count("embedding_length", WIDTH),
    count("block_count", LAYERS),
    count("feed_forward_length", INNER),
    count("attention.head_count", HEADS),
    count("attention.head_count_kv", KV_HEADS),
    real("attention.layer_norm_rms_epsilon", RMS_EPSILON),
    count("attention.key_length", &["head_dim"]),
    count("attention.value_length", &["head_dim"]),
    FILE_TYPE,
];
