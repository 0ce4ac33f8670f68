//! Metadata keys of the hyperparameters, and the keys of `config.json` they come from.

use serde_json::Value;

use super::config::Config;
pub(crate) use super::key_names::{
    ALL_EXPERT_KEYS, CONTEXT_KEYS, EPSILON_KEYS, EXPERT_KEYS, FFN_KEYS, HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS,
    LAYER_KEYS,
};
use super::sentence_transformers::POOLING_KEY;
use super::size::Size;
use super::value::{as_real, unexpected};
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, Result, quoted};

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
    /// A count, or a list of counts, one per layer.
    CountOrList(&'static [&'static str]),
    /// The number of layers, with those for multi-token prediction.
    Layers,
    /// A count with a default.
    CountOr(&'static [&'static str], u64),
    Real(&'static [&'static str]),
    /// A required count.
    Needed(&'static str),
    /// A required number.
    NeededReal(&'static str),
    /// A number with a default.
    RealOr(&'static [&'static str], f64),
    /// A flag.
    Flag(&'static str),
    /// A flag with a default.
    FlagOr(&'static str, bool),
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
    /// A text of the configuration.
    OwnText(&'static str),
    /// A derived list of integers, one per layer.
    IntsFn(fn(&Config) -> Result<Option<Vec<i32>>>),
    /// A derived list of integers of 64 bits.
    LongsFn(fn(&Config) -> Result<Option<Vec<u64>>>),
    /// A derived list of numbers.
    RealsFn(fn(&Config) -> Result<Option<Vec<f32>>>),
    /// A derived list of strings.
    TextsFn(fn(&Config) -> Result<Option<Vec<String>>>),
    /// A size, which must not be zero.
    Size(Size),
    /// A key that an earlier table writes is removed.
    Removed,
    /// `general.file_type`: the only key without the architecture's prefix.
    FileType,
}

impl Key {
    /// Whether its value is a list.
    pub(crate) const fn is_list(&self) -> bool {
        let from = &self.from;
        matches!(
            from,
            ValueSource::BoolsFn(_)
                | ValueSource::IntsFn(_)
                | ValueSource::LongsFn(_)
                | ValueSource::RealsFn(_)
                | ValueSource::TextsFn(_)
        )
    }

    /// The value by a configuration.
    pub(crate) fn value(&self, config: &Config, file_type: u32) -> Result<Option<MetadataValue>> {
        use crate::catalog::MetadataArray;
        let count =
            |count: Option<u64>| count.map(|count| MetadataValue::U32(u32::try_from(count).unwrap_or(u32::MAX)));
        let real = |real: Option<f64>| real.map(|real| MetadataValue::F32(real as f32));
        Ok(match self.from {
            ValueSource::Count(keys) => count(config.count(keys)?),
            ValueSource::CountOrList(keys) => match config.counts(config.key_of(keys)) {
                Ok(Some(list)) => {
                    let items = list.into_iter().map(|item| i32::try_from(item).unwrap_or(i32::MAX)).collect();
                    Some(MetadataValue::Array(Box::new(MetadataArray::I32(items))))
                }
                _ => count(config.count(keys)?),
            },
            ValueSource::Layers => {
                count(config.count(LAYER_KEYS)?.map(|layers| layers.saturating_add(config.nextn_layers)))
            }
            ValueSource::CountOr(keys, default) => count(Some(config.count(keys)?.unwrap_or(default))),
            ValueSource::Real(keys) => real(config.real(keys)?),
            ValueSource::Needed(key) => count(Some(config.needed(key)?)),
            ValueSource::NeededReal(key) => real(Some(config.needed_real(key)?)),
            ValueSource::RealOr(keys, default) => real(Some(config.real(keys)?.unwrap_or(default))),
            ValueSource::Flag(key) => config.flag(key)?.map(MetadataValue::Bool),
            ValueSource::FlagOr(key, default) => Some(MetadataValue::Bool(config.flag(key)?.unwrap_or(default))),
            ValueSource::CountFn(derive) => count(derive(config)?),
            ValueSource::RealFn(derive) => real(derive(config)?),
            ValueSource::TextFn(derive) => derive(config)?.map(|text| MetadataValue::String(text.to_owned())),
            ValueSource::BoolFn(derive) => derive(config)?.map(MetadataValue::Bool),
            ValueSource::BoolsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::Bool(list))))
            }
            ValueSource::OwnText(key) => {
                let text = config.text(key)?.filter(|text| !text.is_empty());
                text.map(|text| MetadataValue::String(text.to_owned()))
            }
            ValueSource::IntsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::I32(list))))
            }
            ValueSource::LongsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::U64(list))))
            }
            ValueSource::RealsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::F32(list))))
            }
            ValueSource::TextsFn(derive) => {
                derive(config)?.map(|list| MetadataValue::Array(Box::new(MetadataArray::String(list))))
            }
            ValueSource::Size(size) => match (size.of)(config)? {
                0 => return Err(AnamnesisError::parse(format!("config.json: {} is 0", quoted(size.hf)))),
                size => count(Some(size)),
            },
            ValueSource::Removed => None,
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

pub(crate) const fn needed(gguf: &'static str, key: &'static str) -> Key {
    Key { gguf, from: ValueSource::Needed(key) }
}

pub(crate) const fn needed_real(gguf: &'static str, key: &'static str) -> Key {
    Key { gguf, from: ValueSource::NeededReal(key) }
}

pub(crate) const fn count_or(gguf: &'static str, keys: &'static [&'static str], default: u64) -> Key {
    Key { gguf, from: ValueSource::CountOr(keys, default) }
}

pub(crate) const fn real_or(gguf: &'static str, keys: &'static [&'static str], default: f64) -> Key {
    Key { gguf, from: ValueSource::RealOr(keys, default) }
}

pub(crate) const fn flag(gguf: &'static str, key: &'static str) -> Key {
    Key { gguf, from: ValueSource::Flag(key) }
}

pub(crate) const fn flag_or(gguf: &'static str, key: &'static str, default: bool) -> Key {
    Key { gguf, from: ValueSource::FlagOr(key, default) }
}

pub(crate) const fn count_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<u64>>) -> Key {
    Key { gguf, from: ValueSource::CountFn(derive) }
}

pub(crate) const fn real_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<f64>>) -> Key {
    Key { gguf, from: ValueSource::RealFn(derive) }
}

pub(crate) const fn text_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<&'static str>>) -> Key {
    Key { gguf, from: ValueSource::TextFn(derive) }
}

pub(crate) const fn flag_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<bool>>) -> Key {
    Key { gguf, from: ValueSource::BoolFn(derive) }
}

pub(crate) const fn flags_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<Vec<bool>>>) -> Key {
    Key { gguf, from: ValueSource::BoolsFn(derive) }
}

pub(crate) const fn ints_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<Vec<i32>>>) -> Key {
    Key { gguf, from: ValueSource::IntsFn(derive) }
}

pub(crate) const fn longs_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<Vec<u64>>>) -> Key {
    Key { gguf, from: ValueSource::LongsFn(derive) }
}

pub(crate) const fn reals_fn(gguf: &'static str, derive: fn(&Config) -> Result<Option<Vec<f32>>>) -> Key {
    Key { gguf, from: ValueSource::RealsFn(derive) }
}

/// A key that an earlier table writes and this architecture does not have.
pub(crate) const fn removed(gguf: &'static str) -> Key {
    Key { gguf, from: ValueSource::Removed }
}

pub(crate) const FILE_TYPE: Key = Key { gguf: "general.file_type", from: ValueSource::FileType };

/// `pooling_type` of sentence encoders, from their `modules.json`, and that of classifiers.
pub(crate) const POOLING: &[Key] = &[
    count_fn("pooling_type", |config| pooling(config, POOLING_KEY, &["mean", "cls", "lasttoken"])),
    count_fn("classifier.pooling_type", |config| pooling(config, "classifier_pooling", &["mean", "cls"])),
];

/// The number of a pooling mode.
fn pooling(config: &Config, key: &str, known: &[&str]) -> Result<Option<u64>> {
    let Some(mode) = config.text(key)? else { return Ok(None) };
    match known.iter().position(|known| *known == mode) {
        Some(index) => Ok(Some(index as u64 + 1)),
        None => {
            let why = format!("config.json: {} is {}, {} is needed", quoted(key), quoted(mode), known.join(" or "));
            Err(AnamnesisError::parse(why))
        }
    }
}

/// The layers for multi-token prediction, if there are any.
pub(crate) const NEXTN_KEYS: &[Key] =
    &[count_fn("nextn_predict_layers", |config| Ok((config.nextn_layers > 0).then_some(config.nextn_layers)))];

/// A list of limits with one for every layer: 0 for layers without one.
pub(crate) fn limits(config: &Config, key: &str) -> Result<Option<Vec<f32>>> {
    let Some(limits) = config.get(key) else { return Ok(None) };
    let limits = limits.as_array().ok_or_else(|| unexpected(key, limits, "a list of numbers"))?;
    let at = |layer: u64| match usize::try_from(layer).ok().and_then(|layer| limits.get(layer)) {
        None | Some(Value::Null) => Ok(0.0),
        Some(limit) => as_real(key, limit).map(|limit| limit as f32),
    };
    config.per_layer(at).map(Some)
}

/// The layers with a sliding window, by `layer_types`.
pub(crate) fn sliding_layers(config: &Config) -> Result<Option<Vec<bool>>> {
    let kinds = config.texts("layer_types")?;
    Ok(kinds.map(|kinds| kinds.into_iter().map(|kind| kind == "sliding_attention").collect()))
}

/// `rope.dimension_count`: the size of a head.
pub(crate) const ROPE_OF_HEAD: Key = count_fn("rope.dimension_count", |config| config.head_size().map(Some));

/// The keys of most decoders, in the order of the file.
pub(crate) const COMMON: &[Key] = &[
    Key { gguf: "block_count", from: ValueSource::Layers },
    count("context_length", CONTEXT_KEYS),
    count("embedding_length", HIDDEN_KEYS),
    Key { gguf: "feed_forward_length", from: ValueSource::CountOrList(FFN_KEYS) },
    count("attention.head_count", HEAD_KEYS),
    count("attention.head_count_kv", KV_HEAD_KEYS),
    Key {
        gguf: "attention.causal",
        from: ValueSource::BoolFn(|config| Ok(config.flag("is_causal")?.filter(|is_causal| !is_causal))),
    },
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
    Key { gguf: "rope.dimension_sections", from: ValueSource::IntsFn(sections) },
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
pub(crate) fn sections(config: &Config) -> Result<Option<Vec<i32>>> {
    let Some(sections) = config.rope().reals("mrope_section")? else { return Ok(None) };
    let mut sections: Vec<i32> = sections.iter().map(|section| *section as i32).collect();
    sections.resize(4, 0);
    Ok(Some(sections))
}

/// `expert_gating_func`: the number of the router's activation function.
fn gating(config: &Config) -> Result<Option<u64>> {
    let mut name = None;
    for key in [
        "score_function",
        "scoring_func",
        "score_func",
        "moe_router_activation",
        "moe_router_activation_func",
        "expert_selection_fn",
    ] {
        name = name.or(config.text(key)?.map(|name| (key, name)));
    }
    Ok(match name {
        None => None,
        Some((_, "softmax")) => Some(1),
        Some((_, "sigmoid")) => Some(2),
        Some((_, "sqrtsoftplus")) => Some(4),
        Some((key, other)) => {
            let why = format!(
                "config.json: {} is {}, softmax, sigmoid or sqrtsoftplus is needed",
                quoted(key),
                quoted(other)
            );
            return Err(AnamnesisError::parse(why));
        }
    })
}
