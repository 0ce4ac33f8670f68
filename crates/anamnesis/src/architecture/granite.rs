//! Granite: Llama with four scales.

use super::config::{Config, DefaultValue};
use super::key::{COMMON, Key, count, counted, worked};
use super::kind::{Architecture, Class, USUAL};
use super::llama::{FREQUENCIES, restore_frequencies};
use super::rule::{AROUND, BIASED_GATED, NORMS, PAIRED_ATTENTION};
use super::tokenizer::Family;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "granite",
    classes: &[Class {
        name: "GraniteForCausalLM",
        model_type: "granite",
        defaults: &[
            ("vocab_size", DefaultValue::Count(32000)),
            ("hidden_size", DefaultValue::Count(4096)),
            ("intermediate_size", DefaultValue::Count(11008)),
            ("num_hidden_layers", DefaultValue::Count(32)),
            ("num_attention_heads", DefaultValue::Count(32)),
            ("num_key_value_heads", DefaultValue::Same("num_attention_heads")),
            ("max_position_embeddings", DefaultValue::Count(2048)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("attention_multiplier", DefaultValue::Real(1.0)),
            ("embedding_multiplier", DefaultValue::Real(1.0)),
            ("residual_multiplier", DefaultValue::Real(1.0)),
            ("logits_scaling", DefaultValue::Real(1.0)),
            ("rope_theta", DefaultValue::Real(10000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, PAIRED_ATTENTION, BIASED_GATED],
    keys: &[COMMON, SIZES],
    made: FREQUENCIES,
    family: Family::LlamaLike,
    restore: |file, config| {
        restore_frequencies(file, config)?;
        for (key, name) in [
            ("attention.scale", "attention_multiplier"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("logit_scale", "logits_scaling"),
        ] {
            if let Some(scale) = file.real(key) {
                config.insert(name.to_owned(), scale.into());
            }
        }
        Ok(0)
    },
    ..USUAL
};

const SIZES: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    counted("rope.dimension_count", |config| config.share_of_width().map(Some)),
    worked("attention.scale", |config| scale(config, "attention_multiplier")),
    worked("embedding_scale", |config| scale(config, "embedding_multiplier")),
    worked("residual_scale", |config| scale(config, "residual_multiplier")),
    worked("logit_scale", |config| scale(config, "logits_scaling")),
];

fn scale(config: &Config, key: &str) -> Result<Option<f64>> {
    Ok(config.real(&[key])?.filter(|scale| *scale != 0.0))
}
