//! Qwen 3: norms of queries and keys.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    classes: &[Class {
        name: "Qwen3ForCausalLM",
        model_type: "qwen3",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_936)),
                ("intermediate_size", Count(22016)),
                ("num_key_value_heads", Count(32)),
                ("head_dim", Count(128)),
                ("max_position_embeddings", Count(32768)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    tokenizer: TokenizerRules { classes: &[("qwen3", TokenizerClass::Registered("Qwen2Tokenizer"))], ..PIECES_OR_BPE },
    restore: Some(|_, config| {
        set(config, "use_sliding_window", false);
        Ok(0)
    }),
    refused_names: &["qwen3-reranker", "qwen3-vl-reranker"],
    ..DECODER
};
