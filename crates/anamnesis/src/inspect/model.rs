//! A model's kind and sizes, from its configuration or metadata.

use super::parameters::experts;
use super::settings::{LAYER_KEYS, Settings};
use crate::architecture::key;

/// Configuration keys for the same hyperparameter: those of the converters, then those of other classes.
const HIDDEN_KEYS: &[&str] = &["hidden_size", "n_embd", "dim", "d_model", "model_dim"];
const HEAD_KEYS: &[&str] = &["num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"];
const KV_HEAD_KEYS: &[&str] =
    &["num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"];

/// A model's kind and sizes; `None` if the configuration does not have one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFacts {
    /// `model_type` in `config.json`, or the architecture of a GGUF file.
    pub model_type: Option<String>,
    /// Its class in transformers.
    pub class: Option<String>,
    /// Layers of the language model.
    pub layers: Option<u64>,
    /// The hidden size.
    pub hidden: Option<u64>,
    /// Attention heads; the most that a layer has.
    pub heads: Option<u64>,
    /// Heads of keys and values.
    pub kv_heads: Option<u64>,
    /// Experts of a layer.
    pub experts: Option<u64>,
    /// Experts that a token uses.
    pub experts_used: Option<u64>,
    /// The longest context in tokens.
    pub context: Option<u64>,
    /// Tokens in the vocabulary.
    pub vocabulary: Option<u64>,
}

impl ModelFacts {
    pub(super) fn of(settings: &Settings) -> Self {
        let (experts, experts_used) = experts(settings);
        let heads = heads(settings);
        let is_shared =
            settings.flag("multi_query") == Some(true) && settings.flag("new_decoder_architecture") != Some(true);
        let kv_heads = if is_shared { Some(1) } else { settings.count(KV_HEAD_KEYS, "attention.head_count_kv") };
        Self {
            model_type: settings.outer_type().map(str::to_owned),
            class: settings.class().map(str::to_owned),
            layers: settings.count(LAYER_KEYS, "block_count"),
            hidden: hidden(settings),
            heads,
            kv_heads: kv_heads.filter(|heads| *heads > 0).or(heads),
            experts,
            experts_used: experts_used.filter(|_| experts.is_some()),
            context: settings.count(key::CONTEXT_KEYS, "context_length"),
            vocabulary: settings.vocabulary(),
        }
    }
}

pub(super) fn hidden(settings: &Settings) -> Option<u64> {
    settings.count(HIDDEN_KEYS, "embedding_length")
}

pub(super) fn heads(settings: &Settings) -> Option<u64> {
    settings.count(HEAD_KEYS, "attention.head_count").filter(|heads| *heads > 0)
}
