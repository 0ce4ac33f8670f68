//! Qwen 3 MoE: norms of queries and keys, routed experts.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3moe",
    classes: &[Class {
        name: "Qwen3MoeForCausalLM",
        model_type: "qwen3_moe",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_936)),
                ("hidden_size", Count(2048)),
                ("intermediate_size", Count(6144)),
                ("num_hidden_layers", Count(24)),
                ("num_key_value_heads", Count(4)),
                ("max_position_embeddings", Count(32768)),
                ("num_experts", Same("num_local_experts")),
                ("num_experts_per_tok", Count(8)),
                ("moe_intermediate_size", Count(768)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, EXPERTS],
    keys: &[COMMON, EXPERT_SIZES],
    tokenizer: TokenizerRules {
        classes: &[("qwen3_moe", TokenizerClass::Registered("Qwen2Tokenizer"))],
        ..PIECES_OR_BPE
    },
    restore: Some(|file, config| restore::experts(file, config, true)),
    ..DECODER
};
