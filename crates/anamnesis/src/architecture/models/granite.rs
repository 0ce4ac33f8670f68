//! Granite: Llama with four multipliers.

use serde_json::{Map, Value};

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "granite",
    classes: &[Class {
        name: "GraniteForCausalLM",
        model_type: "granite",
        defaults: &[
            BASE,
            &[
                ("attention_multiplier", Real(1.0)),
                ("embedding_multiplier", Real(1.0)),
                ("residual_multiplier", Real(1.0)),
                ("logits_scaling", Real(1.0)),
            ],
        ],
    }],
    // The encoder of speech models.
    dropped: &["encoder."],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED],
    keys: &[COMMON, KEYS],
    derived_tensors: ROPE_FREQS,
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Digits, "refact")],
        classes: &[("granite", TokenizerClass::NoDefaults)],
        ..LLAMA_LIKE
    },
    restore: Some(|file, config| {
        rope_freqs::restore_scaling(file, config)?;
        restore_scales(file, config);
        Ok(0)
    }),
    ..DECODER
};

/// Sets the multipliers of a configuration.
pub(super) fn restore_scales(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    for (key, name) in SCALES {
        if let Some(scale) = file.real(key) {
            set(config, name, scale);
        }
    }
}

/// The multipliers, by their keys in GGUF and in the configuration.
const SCALES: [(&str, &str); 4] = [
    ("attention.scale", "attention_multiplier"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("logit_scale", "logits_scaling"),
];

pub(super) const KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
    real_fn("attention.scale", |config| scale(config, "attention_multiplier")),
    real_fn("embedding_scale", |config| scale(config, "embedding_multiplier")),
    real_fn("residual_scale", |config| scale(config, "residual_multiplier")),
    real_fn("logit_scale", |config| scale(config, "logits_scaling")),
];

fn scale(config: &Config, key: &str) -> Result<Option<f64>> {
    Ok(config.real(&[key])?.filter(|scale| *scale != 0.0))
}
