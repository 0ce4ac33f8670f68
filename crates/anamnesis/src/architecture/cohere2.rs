//! Command R of the second generation: one norm in a layer, attention and feed-forward side by side.

use super::config::{Config, DefaultValue};
use super::key::{COMMON, Key, ValueSource, count, counted, real};
use super::kind::{Architecture, Class, USUAL};
use super::rule::{AROUND, ATTENTION, GATED, Rule, layer};
use super::size::WIDTH;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "cohere2",
    classes: &[Class {
        name: "Cohere2ForCausalLM",
        model_type: "cohere2",
        defaults: &[
            ("vocab_size", DefaultValue::Count(256_000)),
            ("hidden_size", DefaultValue::Count(8192)),
            ("intermediate_size", DefaultValue::Count(22528)),
            ("num_hidden_layers", DefaultValue::Count(40)),
            ("num_attention_heads", DefaultValue::Count(64)),
            ("num_key_value_heads", DefaultValue::Same("num_attention_heads")),
            ("head_dim", DefaultValue::Quotient("hidden_size", "num_attention_heads")),
            ("max_position_embeddings", DefaultValue::Count(8192)),
            ("layer_norm_eps", DefaultValue::Real(1e-5)),
            ("sliding_window", DefaultValue::Count(4096)),
            ("logit_scale", DefaultValue::Real(0.0625)),
            ("tie_word_embeddings", DefaultValue::Flag(true)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, ONE_NORM, ATTENTION, GATED],
    keys: &[COMMON, SIZES],
    restore: |file, config| {
        let layers = file.count("block_count").unwrap_or(0);
        let kind = |layer| if (layer + 1) % 4 == 0 { "full_attention" } else { "sliding_attention" };
        config.insert("layer_types".to_owned(), (0..layers).map(kind).collect::<Vec<_>>().into());
        Ok(0)
    },
    ..USUAL
};

const ONE_NORM: &[Rule] = &[layer("input_layernorm.*", "attn_norm.*", &[WIDTH])];

const SIZES: &[Key] = &[
    real("logit_scale", &["logit_scale"]),
    count("attention.sliding_window", &["sliding_window"]),
    count("vocab_size", &["vocab_size"]),
    counted("rope.dimension_count", dimensions),
    Key { gguf: "rope.scaling.type", from: ValueSource::TextFn(|_| Ok(Some("none"))) },
];

fn dimensions(config: &Config) -> Result<Option<u64>> {
    let part = config.real(&["rotary_pct"])?.unwrap_or(1.0);
    let width = config.needed("hidden_size")? as f64;
    Ok(Some((part * (width / config.divisor("num_attention_heads")? as f64)) as u64))
}
