//! Gemma 2: four norms per layer, soft-capping of attention and logits.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma2",
    classes: &[Class {
        name: "Gemma2ForCausalLM",
        model_type: "gemma2",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(256_000)),
                ("hidden_size", Count(2304)),
                ("intermediate_size", Count(9216)),
                ("num_hidden_layers", Count(26)),
                ("num_attention_heads", Count(8)),
                ("num_key_value_heads", Count(4)),
                ("head_dim", Count(256)),
                ("max_position_embeddings", Count(8192)),
                ("sliding_window", Count(4096)),
                ("attn_logit_softcapping", Real(50.0)),
                ("final_logit_softcapping", Real(30.0)),
                ("query_pre_attn_scalar", Count(256)),
                ("tie_word_embeddings", Flag(true)),
                ("rope_theta", Absent),
            ],
        ],
    }],
    rules: &[EMBED_NORM_TIED, FOUR_NORMS, ATTENTION, GATED_FFN],
    keys: &[WITHOUT_ROPE, KEYS],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        no_space_prefix: true,
        classes: &[("gemma2", TokenizerClass::Registered("GemmaTokenizer"))],
        ..BPE
    },
    head: Head::Never,
    restore: Some(|file, config| {
        restore::gemma_queries(file, config, 46);
        Ok(0)
    }),
    ..DECODER
};

const KEYS: &[Key] = &[
    real("attn_logit_softcapping", &["attn_logit_softcapping"]),
    real("final_logit_softcapping", &["final_logit_softcapping"]),
    count("attention.sliding_window", &["sliding_window"]),
];
