//! Qwen 2 MoE: routed experts and a shared expert with a gate.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen2moe",
    classes: &[Class {
        name: "Qwen2MoeForCausalLM",
        model_type: "qwen2_moe",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_936)),
                ("hidden_size", Count(2048)),
                ("intermediate_size", Count(5632)),
                ("num_hidden_layers", Count(24)),
                ("num_attention_heads", Count(16)),
                ("num_key_value_heads", Count(16)),
                ("max_position_embeddings", Count(32768)),
                ("num_experts", Count(60)),
                ("num_experts_per_tok", Count(4)),
                ("moe_intermediate_size", Count(1408)),
                ("shared_expert_intermediate_size", Count(5632)),
                ("qkv_bias", Flag(true)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERT],
    keys: &[COMMON, EXPERT_SIZES],
    tokenizer: TokenizerRules {
        classes: &[("qwen2_moe", TokenizerClass::Registered("Qwen2Tokenizer"))],
        ..PIECES_OR_BPE
    },
    restore: Some(|file, config| {
        config.remove("attention_bias");
        set(config, "qkv_bias", file.has_in_layers(&["attn_q.bias", "attn_k.bias", "attn_v.bias"]));
        restore::experts(file, config, false)
    }),
    head: Head::Always,
    ..DECODER
};

const ATTENTION: &[Rule] = &attention(Need::Flag("qkv_bias"), Need::Never);
