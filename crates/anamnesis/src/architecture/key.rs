//! Metadata keys of the hyperparameters, and the keys of `config.json` they come from.

use super::config::Config;
use crate::catalog::MetadataValue;
use crate::error::Result;

/// A metadata key, after the name of the architecture, with the source of its value.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub gguf: &'static str,
    pub from: ValueSource,
}

/// Where the value of a metadata key comes from: the first of several configuration keys that has one, or a function of
/// the configuration. Without a value the key is not written.
#[derive(Clone, Copy)]
pub(crate) enum ValueSource {
    Count(&'static [&'static str]),
    /// A count with a default.
    CountOr(&'static [&'static str], u64),
    Real(&'static [&'static str]),
    /// A derived count.
    CountFn(fn(&Config) -> Result<Option<u64>>),
    /// A derived number.
    RealFn(fn(&Config) -> Result<Option<f64>>),
    /// A derived string.
    TextFn(fn(&Config) -> Result<Option<&'static str>>),
    /// A derived boolean.
    BoolFn(fn(&Config) -> Result<Option<bool>>),
    /// A derived list of booleans.
    BoolsFn(fn(&Config) -> Result<Option<Vec<bool>>>),
    /// A derived list of counts.
    CountsFn(fn(&Config) -> Result<Option<Vec<u32>>>),
    /// `general.file_type`: the only key without the architecture's prefix.
    FileType,
}

impl Key {
    /// The value by a configuration.
    pub(crate) fn value(&self, config: &Config, file_type: u32) -> Result<Option<MetadataValue>> {
        use crate::catalog::MetadataArray;
        let count =
            |count: Option<u64>| count.map(|count| MetadataValue::U32(u32::try_from(count).unwrap_or(u32::MAX)));
        let real = |real: Option<f64>| real.map(|real| MetadataValue::F32(real as f32));
        Ok(match self.from {
            ValueSource::Count(keys) => count(config.count(keys)?),
            ValueSource::CountOr(keys, default) => count(Some(config.count(keys)?.unwrap_or(default))),
            ValueSource::Real(keys) => real(config.real(keys)?),
            ValueSource::CountFn(derive) => count(derive(config)?),
            ValueSource::RealFn(derive) => real(derive(config)?),
            ValueSource::TextFn(derive) => derive(config)?.map(|text| MetadataValue::String(text.to_owned())),
            ValueSource::BoolFn(derive) => derive(config)?.map(MetadataValue::Bool),
            ValueSource::BoolsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::Bool(list))))
            }
            ValueSource::CountsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::U32(list))))
            }
            ValueSource::FileType => Some(MetadataValue::U32(file_type)),
        })
    }
}

pub(crate) const fn count(gguf: &'static str, keys: &'static [&'static str]) -> Key {
    Key { gguf, from: ValueSource::Count(keys) }
}

pub(crate) const fn real(gguf: &'static str, keys: &'static [&'static str]) -> Key {
    Key { gguf, from: ValueSource::Real(keys) }
}

pub(crate) const fn count_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<u64>>) -> Key {
    Key { gguf, from: ValueSource::CountFn(derive) }
}

pub(crate) const fn real_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<f64>>) -> Key {
    Key { gguf, from: ValueSource::RealFn(derive) }
}

pub(crate) const FILE_TYPE: Key = Key { gguf: "general.file_type", from: ValueSource::FileType };

/// Configuration keys for the same hyperparameter, by precedence.
pub(crate) const LAYER_KEYS: &[&str] = &["num_hidden_layers", "n_layers", "n_layer", "num_layers"];
pub(crate) const CONTEXT_KEYS: &[&str] =
    &["max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length", "model_max_length"];
pub(crate) const HIDDEN_KEYS: &[&str] = &["hidden_size", "n_embd", "dim"];
pub(crate) const FFN_KEYS: &[&str] =
    &["prefix_dense_intermediate_size", "dense_intermediate_size", "intermediate_size", "n_inner", "hidden_dim"];
pub(crate) const HEAD_KEYS: &[&str] = &["num_attention_heads", "n_head", "n_heads"];
pub(crate) const KV_HEAD_KEYS: &[&str] = &["num_key_value_heads", "n_kv_heads"];
pub(crate) const EPSILON_KEYS: &[&str] = &["rms_norm_eps", "norm_eps"];
pub(crate) const EXPERT_KEYS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts"];

/// The keys of most decoders, in the order of the file.
pub(crate) const COMMON: &[Key] = &[
    count("block_count", LAYER_KEYS),
    count("context_length", CONTEXT_KEYS),
    count("embedding_length", HIDDEN_KEYS),
    count("feed_forward_length", FFN_KEYS),
    count("attention.head_count", HEAD_KEYS),
    count("attention.head_count_kv", KV_HEAD_KEYS),
    Key { gguf: "rope.scaling.type", from: ValueSource::TextFn(scaling_type) },
    real_fn("rope.scaling.factor", |config| of_scaling(config, "factor", true)),
    count_fn("rope.scaling.original_context_length", |config| match config.rope().kind() {
        "yarn" => config.rope().count("original_max_position_embeddings"),
        _ => Ok(None),
    }),
    real_fn("rope.scaling.yarn_ext_factor", |config| of_scaling(config, "extrapolation_factor", false)),
    real_fn("rope.scaling.yarn_attn_factor", |config| {
        Ok(of_scaling(config, "attention_factor", false)?.or(of_scaling(config, "attn_factor", false)?))
    }),
    real_fn("rope.scaling.yarn_beta_fast", |config| of_scaling(config, "beta_fast", false)),
    real_fn("rope.scaling.yarn_beta_slow", |config| of_scaling(config, "beta_slow", false)),
    Key { gguf: "rope.dimension_sections", from: ValueSource::CountsFn(sections) },
    real_fn("rope.freq_base", |config| config.rope().theta()),
    real_fn("rope.freq_base_swa", |config| config.rope().sliding_theta()),
    real("attention.layer_norm_rms_epsilon", EPSILON_KEYS),
    real("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"]),
    count("expert_count", EXPERT_KEYS),
    count("expert_used_count", &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"]),
    count("expert_group_count", &["n_group"]),
    count("expert_group_used_count", &["topk_group"]),
    count_fn("expert_gating_func", gating),
    count("attention.key_length", &["head_dim"]),
    count("attention.value_length", &["head_dim"]),
    FILE_TYPE,
    Key {
        gguf: "attention.causal",
        from: ValueSource::BoolFn(|config| Ok(config.flag("is_causal")?.filter(|is_causal| !is_causal))),
    },
];

/// The keys of a converter that writes no RoPE parameters, in the order of the file.
pub(crate) const WITHOUT_ROPE: &[Key] = &[
    count("context_length", CONTEXT_KEYS),
    count("embedding_length", HIDDEN_KEYS),
    count("block_count", LAYER_KEYS),
    count("feed_forward_length", FFN_KEYS),
    count("attention.head_count", HEAD_KEYS),
    count("attention.head_count_kv", KV_HEAD_KEYS),
    real("attention.layer_norm_rms_epsilon", EPSILON_KEYS),
    count("attention.key_length", &["head_dim"]),
    count("attention.value_length", &["head_dim"]),
    FILE_TYPE,
];

/// The keys of models like Llama, after the common ones.
pub(crate) const VOCABULARY_AND_ROPE: &[Key] =
    &[count("vocab_size", &["vocab_size"]), count_fn("rope.dimension_count", |config| config.head_size().map(Some))];

/// The sizes of experts, after the common keys.
pub(crate) const EXPERT_SIZES: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
];

/// The dimensions that RoPE rotates in models where `partial_rotary_factor` is one half by default.
pub(crate) fn half_of_head(config: &Config) -> Result<Option<u64>> {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.5);
    Ok(Some((config.head_size()? as f64 * part) as u64))
}

fn scaling_type(config: &Config) -> Result<Option<&'static str>> {
    Ok(match config.rope().kind() {
        "linear" => Some("linear"),
        "yarn" => Some("yarn"),
        "su" | "longrope" => Some("longrope"),
        _ => None,
    })
}

/// A parameter of YaRN or, with `also_linear`, of linear scaling.
fn of_scaling(config: &Config, key: &str, also_linear: bool) -> Result<Option<f64>> {
    match config.rope().kind() {
        "yarn" => config.rope().real(key),
        "linear" if also_linear => config.rope().real(key),
        _ => Ok(None),
    }
}

/// The sections of multimodal RoPE, padded to four.
fn sections(config: &Config) -> Result<Option<Vec<u32>>> {
    let Some(sections) = config.rope().reals("mrope_section")? else { return Ok(None) };
    let mut sections: Vec<u32> = sections.iter().map(|section| *section as u32).collect();
    sections.resize(sections.len().max(4), 0);
    Ok(Some(sections))
}

/// `expert_gating_func`: the number of the router's activation function.
fn gating(config: &Config) -> Result<Option<u64>> {
    let mut name = None;
    for key in ["score_function", "scoring_func", "score_func", "moe_router_activation_func"] {
        name = name.or(config.text(key)?);
    }
    Ok(match name {
        Some("softmax") => Some(1),
        Some("sigmoid") => Some(2),
        Some("sqrtsoftplus") => Some(4),
        _ => None,
    })
}
