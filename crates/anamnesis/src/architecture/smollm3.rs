//! SmolLM 3: Llama with every fourth layer free of positions, which llama.cpp knows by itself.

use super::config::DefaultValue;
use super::key::COMMON;
use super::kind::{Architecture, Class, USUAL};
use super::llama::{FREQUENCIES, SIZES, restore_frequencies};
use super::rule::{AROUND, BIASED_GATED, NORMS, PAIRED_ATTENTION};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "smollm3",
    classes: &[Class {
        name: "SmolLM3ForCausalLM",
        model_type: "smollm3",
        defaults: &[
            ("vocab_size", DefaultValue::Count(128_256)),
            ("hidden_size", DefaultValue::Count(2048)),
            ("intermediate_size", DefaultValue::Count(11008)),
            ("num_hidden_layers", DefaultValue::Count(36)),
            ("num_attention_heads", DefaultValue::Count(16)),
            ("num_key_value_heads", DefaultValue::Count(4)),
            ("max_position_embeddings", DefaultValue::Count(32768)),
            ("rms_norm_eps", DefaultValue::Real(1e-6)),
            ("tie_word_embeddings", DefaultValue::Flag(true)),
            ("rope_theta", DefaultValue::Real(2_000_000.0)),
        ],
    }],
    rules: &[AROUND, NORMS, PAIRED_ATTENTION, BIASED_GATED],
    keys: &[COMMON, SIZES],
    made: FREQUENCIES,
    family: Family::LlamaLike,
    restore: |file, config| {
        restore_frequencies(file, config)?;
        let layers = file.count("block_count").unwrap_or(0);
        let turned: Vec<u8> = (0..layers).map(|layer| u8::from((layer + 1) % 4 != 0)).collect();
        config.insert("no_rope_layers".to_owned(), turned.into());
        config.insert("use_sliding_window".to_owned(), false.into());
        Ok(0)
    },
    ..USUAL
};
