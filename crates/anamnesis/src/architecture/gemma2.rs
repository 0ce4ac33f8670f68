//! Gemma 2: four norms in a layer, limits to attention and to logits.

use serde_json::{Map, Value};

use super::change::Change;
use super::config::DefaultValue;
use super::gemma::{AROUND, GELU, SIZES};
use super::gguf::Gguf;
use super::key::{Key, count, real};
use super::kind::{Architecture, Class, Head, USUAL};
use super::rule::{ATTENTION, GATED, Rule, layer};
use super::size::WIDTH;
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma2",
    classes: &[Class {
        name: "Gemma2ForCausalLM",
        model_type: "gemma2",
        defaults: &[
            ("vocab_size", DefaultValue::Count(256_000)),
            ("hidden_size", DefaultValue::Count(2304)),
            ("intermediate_size", DefaultValue::Count(9216)),
            ("num_hidden_layers", DefaultValue::Count(26)),
            ("num_attention_heads", DefaultValue::Count(8)),
            ("num_key_value_heads", DefaultValue::Count(4)),
            ("head_dim", DefaultValue::Count(256)),
            ("max_position_embeddings", DefaultValue::Count(8192)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("sliding_window", DefaultValue::Count(4096)),
            ("attn_logit_softcapping", DefaultValue::Real(50.0)),
            ("final_logit_softcapping", DefaultValue::Real(30.0)),
            ("query_pre_attn_scalar", DefaultValue::Count(256)),
            ("tie_word_embeddings", DefaultValue::Flag(true)),
        ],
    }],
    rules: &[AROUND, FOUR_NORMS, ATTENTION, GATED],
    keys: &[SIZES, LIMITS],
    family: Family::Gemma2,
    head: Head::Never,
    restore: |file, config| {
        restore_queries(file, config, 46);
        Ok(0)
    },
    ..USUAL
};

/// Norms before and behind attention and feed-forward.
pub(super) const FOUR_NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
    layer("pre_feedforward_layernorm.*", "ffn_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
];

const LIMITS: &[Key] = &[
    real("attn_logit_softcapping", &["attn_logit_softcapping"]),
    real("final_logit_softcapping", &["final_logit_softcapping"]),
    count("attention.sliding_window", &["sliding_window"]),
];

/// What queries are divided by: the size of a head, but an even share of the width in the largest model, which has so many
/// layers.
pub(super) fn restore_queries(file: &Gguf<'_>, config: &mut Map<String, Value>, layers_of_largest: u64) {
    config.insert("hidden_activation".to_owned(), GELU.into());
    config.remove("hidden_act");
    let heads = file.count("attention.head_count").filter(|heads| *heads > 0);
    let size = match (file.count("block_count"), file.count("embedding_length"), heads) {
        (Some(layers), Some(width), Some(heads)) if layers == layers_of_largest => Some(width / heads),
        _ => file.count("attention.key_length"),
    };
    if let Some(size) = size {
        config.insert("query_pre_attn_scalar".to_owned(), size.into());
    }
}
