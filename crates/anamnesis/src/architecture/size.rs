//! Dimensions of tensors as functions of the configuration.

use super::config::Config;
use super::key_names::{ALL_EXPERT_KEYS, FFN_KEYS, HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS};
use super::value::missing;
use crate::error::Result;

/// One dimension of a tensor in GGUF, and the keys it is derived from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub of: fn(&Config) -> Result<u64>,
    /// The size in a layer, for sizes that differ between layers.
    pub in_layer: Option<fn(&Config, u64) -> Result<u64>>,
    /// The keys in `config.json`.
    pub hf: &'static str,
    /// The keys in GGUF, after the name of the architecture.
    pub gguf: &'static str,
}

pub(crate) const fn size(of: fn(&Config) -> Result<u64>, hf: &'static str, gguf: &'static str) -> Size {
    Size { of, in_layer: None, hf, gguf }
}

/// A size that differs between layers.
pub(crate) const fn layer_size(of: fn(&Config, u64) -> Result<u64>, hf: &'static str, gguf: &'static str) -> Size {
    Size { of: |_| Err(missing("layer")), in_layer: Some(of), hf, gguf }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.of, other.of) && self.hf == other.hf
    }
}

impl Size {
    /// The size of a tensor in a layer, or outside the layers.
    pub(crate) fn at(&self, config: &Config, layer: Option<u64>) -> Result<u64> {
        match (self.in_layer, layer) {
            (Some(of), Some(layer)) => of(config, layer),
            _ => (self.of)(config),
        }
    }
}

/// The hidden size of the model.
pub(crate) const HIDDEN: Size = size(|config| first(config, HIDDEN_KEYS), "hidden_size", "embedding_length");
/// The intermediate size of the feed-forward network.
pub(crate) const FFN: Size = size(|config| first(config, FFN_KEYS), "intermediate_size", "feed_forward_length");
/// The rows of `gate_proj` and `up_proj` in one tensor.
pub(crate) const TWO_FFN: Size =
    size(|config| Ok(first(config, FFN_KEYS)?.saturating_mul(2)), "intermediate_size", "feed_forward_length");
/// The rows of the embedding and of the head.
pub(crate) const VOCAB: Size =
    size(|config| config.needed("vocab_size"), "vocab_size", "vocab_size, tokenizer.ggml.tokens");
/// The number of attention heads.
pub(crate) const HEADS: Size = size(heads, "num_attention_heads", "attention.head_count");
/// The size of a head.
pub(crate) const HEAD_DIM: Size =
    size(Config::head_size, "head_dim, hidden_size, num_attention_heads", "attention.key_length, attention.head_count");
/// The rows of `q_proj`.
pub(crate) const Q_DIM: Size =
    size(queries, "num_attention_heads, head_dim", "attention.head_count, attention.key_length");
/// The rows of `k_proj` or `v_proj`.
pub(crate) const KV_DIM: Size =
    size(keys, "num_key_value_heads, head_dim, num_attention_heads", "attention.head_count_kv, attention.key_length");
/// The rows of a fused `qkv_proj`.
pub(crate) const QKV_DIM: Size = size(
    |config| Ok(keys(config)?.saturating_mul(2).saturating_add(queries(config)?)),
    "num_attention_heads, num_key_value_heads, head_dim",
    "attention.head_count, attention.head_count_kv, attention.key_length",
);
/// The number of routed experts.
pub(crate) const EXPERT_COUNT: Size = size(
    |config| first(config, ALL_EXPERT_KEYS),
    "num_local_experts, num_experts, n_routed_experts, moe_num_experts, moe_num_primary_experts",
    "expert_count",
);
/// The intermediate size of an expert.
pub(crate) const EXPERT_FFN: Size =
    size(expert_inner, "moe_intermediate_size", "expert_feed_forward_length, feed_forward_length");
/// The intermediate size of the shared expert.
pub(crate) const SHARED_FFN: Size = size(
    |config| match config.count(&["shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"])? {
        Some(inner) => Ok(inner),
        None => {
            let shared = first(config, &["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"])?;
            Ok(shared.saturating_mul(expert_inner(config)?))
        }
    },
    "shared_expert_intermediate_size, moe_shared_expert_intermediate_size, n_shared_experts, num_shared_experts, \
     moe_num_shared_experts, moe_intermediate_size",
    "expert_shared_feed_forward_length, expert_shared_count, expert_feed_forward_length",
);
/// A size that no key gives.
pub(crate) const ANY: Size = size(|_| Ok(ANY_SIZE), "", "");
pub(super) const ANY_SIZE: u64 = u64::MAX;
pub(crate) const ONE: Size = size(|_| Ok(1), "", "");

/// The first of these keys that has a value; one is required.
pub(crate) fn first(config: &Config, names: &[&str]) -> Result<u64> {
    config.count(names)?.ok_or_else(|| missing(config.key_of(names)))
}

/// The number of attention heads.
pub(crate) fn heads(config: &Config) -> Result<u64> {
    divisor(config, HEAD_KEYS)
}

/// The number of heads of keys and values: that of queries, if there is none.
pub(crate) fn kv_heads(config: &Config) -> Result<u64> {
    match config.count(KV_HEAD_KEYS)? {
        Some(_) => divisor(config, KV_HEAD_KEYS),
        None => heads(config),
    }
}

/// The first of these keys that has a value, which must not be zero.
fn divisor(config: &Config, names: &[&str]) -> Result<u64> {
    match first(config, names)? {
        0 => {
            let name = names.iter().find(|name| config.get(name).is_some()).copied().unwrap_or("");
            config.divisor(name)
        }
        count => Ok(count),
    }
}

fn queries(config: &Config) -> Result<u64> {
    Ok(heads(config)?.saturating_mul(config.head_size()?))
}

fn keys(config: &Config) -> Result<u64> {
    Ok(kv_heads(config)?.saturating_mul(config.head_size()?))
}

fn expert_inner(config: &Config) -> Result<u64> {
    match config.count(&["moe_intermediate_size"])? {
        Some(inner) => Ok(inner),
        None => first(config, FFN_KEYS),
    }
}
