//! Gemma: norm weights are stored as the difference from 1, and the embedding is the head.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma",
    classes: &[Class {
        name: "GemmaForCausalLM",
        model_type: "gemma",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(256_000)),
                ("hidden_size", Count(3072)),
                ("intermediate_size", Count(24576)),
                ("num_hidden_layers", Count(28)),
                ("num_attention_heads", Count(16)),
                ("num_key_value_heads", Count(16)),
                ("head_dim", Count(256)),
                ("max_position_embeddings", Count(8192)),
                ("tie_word_embeddings", Flag(true)),
                ("rope_theta", Absent),
            ],
        ],
    }],
    rules: &[EMBED_NORM_TIED, NORMS, ATTENTION, GATED_FFN],
    keys: &[WITHOUT_ROPE],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        no_space_prefix: true,
        // The only special token of CodeGemma that has a key in GGUF.
        add: |_, keys| keys.number("tokenizer.ggml.eot_token_id", 107),
        classes: &[("gemma", TokenizerClass::Registered("GemmaTokenizer"))],
        ..BPE
    },
    head: Head::Never,
    restore: Some(|_, config| {
        set(config, "hidden_activation", GELU);
        set(config, "hidden_act", GELU);
        Ok(0)
    }),
    ..DECODER
};

const NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
];
