//! Phi 3 and 4: fused `qkv_proj` and `gate_up_proj`, LongRoPE factors as tensors.

use serde_json::{Value, json};

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "phi3",
    classes: &[
        Class {
            name: "Phi3ForCausalLM",
            model_type: "phi3",
            defaults: &[
                BASE,
                &[
                    ("vocab_size", Count(32064)),
                    ("hidden_size", Count(3072)),
                    ("intermediate_size", Count(8192)),
                    ("max_position_embeddings", Count(4096)),
                    ("original_max_position_embeddings", Count(4096)),
                    ("rms_norm_eps", Real(1e-5)),
                    ("partial_rotary_factor", Real(1.0)),
                ],
            ],
        },
        class("Phi4ForCausalLMV", "phi4-siglip"),
    ],
    rules: &[EMBED_NORM_HEAD, NORMS, FUSED],
    early_keys: EARLY,
    keys: &[KEYS],
    derived_tensors: FACTORS,
    tokenizer: TokenizerRules {
        pieces: PiecesUse::RequiredUnlessGpt2,
        replaces_pieces: true,
        pre: &[(PreTokenizer::Llama3, "dbrx")],
        classes: &[("phi3", TokenizerClass::NoDefaults)],
        ..BPE
    },
    restore: Some(|file, config| {
        if let (Some(dimensions), Some(width), Some(heads)) = (
            file.count("rope.dimension_count"),
            file.count("embedding_length"),
            file.count("attention.head_count").filter(|heads| *heads > 0),
        ) {
            let part = dimensions as f64 / (width as f64 / heads as f64);
            set(config, "partial_rotary_factor", part);
        }
        let window = file.count("attention.sliding_window").filter(|window| *window > 0);
        set(config, "sliding_window", window);
        let factors = |name: &str| -> Result<Option<Value>> {
            let values = (file.values)(name)?;
            Ok(values.map(|values| values.into_iter().map(shortest).collect::<Vec<_>>().into()))
        };
        match (factors("rope_factors_long.weight")?, factors("rope_factors_short.weight")?) {
            (Some(long), Some(short)) => {
                let scaling = json!({ "rope_type": "longrope", "long_factor": long, "short_factor": short });
                set(config, "rope_scaling", scaling);
            }
            (None, None) if file.real("rope.scaling.attn_factor").is_none() => {}
            (long, _) => {
                let name = if long.is_none() { "rope_factors_long.weight" } else { "rope_factors_short.weight" };
                return Err(AnamnesisError::parse("it is missing: positions are scaled by two lists").in_tensor(name));
            }
        }
        Ok(0)
    }),
    ..DECODER
};

/// The attention scale, before the other keys.
pub(super) const EARLY: &[Key] = &[real_fn("rope.scaling.attn_factor", attention_factor)];

/// The factors of LongRoPE.
pub(super) const FACTORS: &[DerivedTensor] = &[
    DerivedTensor { name: "rope_factors_long.weight", row: None, values: |config| factors(config, "long_factor") },
    DerivedTensor { name: "rope_factors_short.weight", row: None, values: |config| factors(config, "short_factor") },
];

const FUSED: &[Rule] = &[
    layer("self_attn.qkv_proj.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

pub(super) const KEYS: &[Key] = &[
    count("context_length", CONTEXT_KEYS),
    count("rope.scaling.original_context_length", &["original_max_position_embeddings"]),
    count("embedding_length", HIDDEN_KEYS),
    count("feed_forward_length", FFN_KEYS),
    count("block_count", LAYER_KEYS),
    count("attention.head_count", HEAD_KEYS),
    count("attention.head_count_kv", KV_HEAD_KEYS),
    real("attention.layer_norm_rms_epsilon", EPSILON_KEYS),
    count_fn("rope.dimension_count", |config| dimensions(config).map(Some)),
    real_fn("rope.freq_base", |config| config.rope().theta()),
    FILE_TYPE,
    count_or("attention.sliding_window", &["sliding_window"], 0),
];

/// The dimensions of a head that RoPE rotates.
fn dimensions(config: &Config) -> Result<u64> {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok((part * config.needed("hidden_size")? as f64) as u64 / config.divisor("num_attention_heads")?)
}

/// Whether RoPE is scaled by factors for short and long contexts.
fn is_scaled(config: &Config) -> bool {
    matches!(config.rope().kind(), "longrope" | "su" | "yarn")
}

/// `rope.scaling.attn_factor`: the attention scale for the extended context.
fn attention_factor(config: &Config) -> Result<Option<f64>> {
    if !is_scaled(config) {
        return Ok(None);
    }
    let original = config.divisor("original_max_position_embeddings")? as f64;
    let scale = config.needed("max_position_embeddings")? as f64 / original;
    Ok(Some(match config.rope().kind() {
        _ if scale <= 1.0 => 1.0,
        "yarn" => 0.1 * scale.ln() + 1.0,
        _ => (1.0 + scale.ln() / original.ln()).sqrt(),
    }))
}

fn factors(config: &Config, key: &str) -> Result<Option<Vec<f32>>> {
    if !is_scaled(config) {
        return Ok(None);
    }
    let wanted = dimensions(config)? / 2;
    let factors = config.rope().reals(key)?.unwrap_or_default();
    if factors.len() as u64 != wanted {
        let why = format!(
            "config.json: {key} has {} values, {wanted} are needed by partial_rotary_factor, hidden_size, num_attention_heads",
            factors.len()
        );
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(factors.iter().map(|factor| *factor as f32).collect()))
}
