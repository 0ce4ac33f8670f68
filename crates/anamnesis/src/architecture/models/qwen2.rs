//! Qwen 2 and 2.5.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen2",
    classes: &[Class {
        name: "Qwen2ForCausalLM",
        model_type: "qwen2",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_936)),
                ("intermediate_size", Count(22016)),
                ("num_key_value_heads", Count(32)),
                ("max_position_embeddings", Count(32768)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN],
    tokenizer: TokenizerRules { classes: &[("qwen2", TokenizerClass::Always("Qwen2Tokenizer"))], ..PIECES_OR_BPE },
    restore: Some(|_, config| {
        set(config, "use_sliding_window", false);
        config.remove("attention_bias");
        Ok(0)
    }),
    ..DECODER
};

/// `q_proj`, `k_proj` and `v_proj` always have biases.
const ATTENTION: &[Rule] = &attention(Need::Always, Need::Never);
