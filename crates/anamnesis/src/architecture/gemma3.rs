//! Gemma 3, alone or as the language model of a larger one: queries and keys have norms, and layers with a window have
//! positions of their own.

use super::change::Change;
use super::config::{Config, DefaultValue};
use super::gemma2::{FOUR_NORMS, restore_queries};
use super::key::{COMMON, Key, counted, real};
use super::kind::{Architecture, Class, Head, USUAL};
use super::rule::{ATTENTION, GATED, Rule, layer, model};
use super::size::{HEAD, Size, VOCABULARY, WIDTH, size};
use super::tokenizer::Family;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma3",
    classes: &[
        Class { name: "Gemma3ForCausalLM", model_type: "gemma3_text", defaults: DEFAULTS },
        Class { name: "Gemma3ForConditionalGeneration", model_type: "gemma3", defaults: DEFAULTS },
    ],
    rules: &[AROUND, FOUR_NORMS, ATTENTION, QK_NORMS, GATED],
    keys: &[COMMON, LIMITS],
    family: Family::Gemma3,
    head: Head::Never,
    restore: |file, config| {
        restore_queries(file, config, 62);
        if let Some(window) = file.count("attention.sliding_window") {
            config.insert("sliding_window".to_owned(), window.into());
        }
        let layers = file.count("block_count").unwrap_or(0);
        let kind = |layer| if (layer + 1) % 6 == 0 { "full_attention" } else { "sliding_attention" };
        config.insert("layer_types".to_owned(), (0..layers).map(kind).collect::<Vec<_>>().into());
        Ok(0)
    },
    lost: Some("vision and audio parts of a larger model, which GGUF keeps elsewhere, are not restored"),
    ..USUAL
};

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("vocab_size", DefaultValue::Count(262_208)),
    ("hidden_size", DefaultValue::Count(2304)),
    ("intermediate_size", DefaultValue::Count(9216)),
    ("num_hidden_layers", DefaultValue::Count(26)),
    ("num_attention_heads", DefaultValue::Count(8)),
    ("num_key_value_heads", DefaultValue::Count(4)),
    ("head_dim", DefaultValue::Count(256)),
    ("max_position_embeddings", DefaultValue::Count(131_072)),
    ("rms_norm_eps", DefaultValue::Real(1e-6)),
    ("sliding_window", DefaultValue::Count(4096)),
    ("query_pre_attn_scalar", DefaultValue::Count(256)),
    ("rope_theta", DefaultValue::Real(1_000_000.0)),
    ("rope_local_base_freq", DefaultValue::Real(10000.0)),
    ("tie_word_embeddings", DefaultValue::Flag(true)),
];

/// The rows of the embedding, without those behind the vocabulary.
const TOKENS: Size = size(
    |config| Ok(config.needed("vocab_size")?.min(config.vocabulary.unwrap_or(u64::MAX))),
    VOCABULARY.hf,
    VOCABULARY.gguf,
);

const AROUND: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[TOKENS, WIDTH]).with(&[Change::CutToVocabulary]),
    model("model.norm.*", "output_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCABULARY, WIDTH]).left_out(),
];

const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD]).with(&[Change::PlusOne]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD]).with(&[Change::PlusOne]),
];

const LIMITS: &[Key] =
    &[counted("attention.sliding_window", window), real("final_logit_softcapping", &["final_logit_softcapping"])];

/// The window of layers that have one; none where every layer sees all.
fn window(config: &Config) -> Result<Option<u64>> {
    match config.count(&["sliding_window_pattern", "_sliding_window_pattern"])? {
        Some(1) => Ok(None),
        _ => config.count(&["sliding_window"]),
    }
}
