//! Gemma 3, text-only or multimodal: norms of queries and keys, RoPE parameters of their own for sliding-window layers.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma3",
    classes: &[
        Class { name: "Gemma3ForCausalLM", model_type: "gemma3_text", defaults: DEFAULTS },
        Class { name: "Gemma3ForConditionalGeneration", model_type: "gemma3", defaults: DEFAULTS },
    ],
    rules: &[EMBED_NORM_HEAD, FOUR_NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        no_space_prefix: true,
        classes: &[
            ("gemma3", TokenizerClass::Registered("GemmaTokenizer")),
            ("gemma3_text", TokenizerClass::Registered("GemmaTokenizer")),
        ],
        ..PIECES_OR_BPE
    },
    head: Head::Never,
    restore: Some(|file, config| {
        restore::gemma_queries(file, config, 62);
        if let Some(window) = file.count("attention.sliding_window") {
            set(config, "sliding_window", window);
        }
        restore::layer_types(file, config, 6);
        Ok(0)
    }),
    restore_note: Some("vision and audio parts of a larger model, which GGUF keeps elsewhere, are not restored"),
    ..DECODER
};

const DEFAULTS: &[&[ClassDefault]] = &[
    BASE,
    &[
        ("vocab_size", Count(262_208)),
        ("hidden_size", Count(2304)),
        ("intermediate_size", Count(9216)),
        ("num_hidden_layers", Count(26)),
        ("num_attention_heads", Count(8)),
        ("num_key_value_heads", Count(4)),
        ("head_dim", Count(256)),
        ("max_position_embeddings", Count(131_072)),
        ("sliding_window", Count(4096)),
        ("query_pre_attn_scalar", Count(256)),
        ("rope_theta", Real(1_000_000.0)),
        ("rope_local_base_freq", Real(10000.0)),
        ("tie_word_embeddings", Flag(true)),
    ],
];

/// The rows of the embedding, without those past the end of the vocabulary.
const TOKENS: Size =
    size(|config| Ok(config.needed("vocab_size")?.min(config.vocabulary.unwrap_or(u64::MAX))), VOCAB.hf, VOCAB.gguf);

const EMBED_NORM_HEAD: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[TOKENS, HIDDEN]).with(&[Change::CutToVocabulary]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).left_out(),
];

const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]),
];

const KEYS: &[Key] =
    &[count_fn("attention.sliding_window", window), real("final_logit_softcapping", &["final_logit_softcapping"])];

/// The sliding window; none if all layers have full attention.
fn window(config: &Config) -> Result<Option<u64>> {
    match config.count(&["sliding_window_pattern", "_sliding_window_pattern"])? {
        Some(1) => Ok(None),
        _ => config.count(&["sliding_window"]),
    }
}
