//! SmolLM 3: Llama without RoPE in every fourth layer, which llama.cpp has built in.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "smollm3",
    classes: &[Class {
        name: "SmolLM3ForCausalLM",
        model_type: "smollm3",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(128_256)),
                ("hidden_size", Count(2048)),
                ("num_hidden_layers", Count(36)),
                ("num_attention_heads", Count(16)),
                ("num_key_value_heads", Count(4)),
                ("max_position_embeddings", Count(32768)),
                ("tie_word_embeddings", Flag(true)),
                ("rope_theta", Real(2_000_000.0)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED],
    keys: &[COMMON, VOCABULARY_AND_ROPE],
    derived_tensors: ROPE_FREQS,
    tokenizer: LLAMA_LIKE,
    restore: Some(|file, config| {
        rope_freqs::restore_scaling(file, config)?;
        let layers = file.count("block_count").unwrap_or(0);
        let with_rope: Vec<u8> = (0..layers).map(|layer| u8::from((layer + 1) % 4 != 0)).collect();
        set(config, "no_rope_layers", with_rope);
        set(config, "use_sliding_window", false);
        Ok(0)
    }),
    ..DECODER
};
