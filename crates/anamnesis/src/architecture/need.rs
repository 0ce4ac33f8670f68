//! Which tensors a configuration implies.

use serde_json::Value;

use super::config::Config;
use super::key::ALL_EXPERT_KEYS;
use super::value::unexpected;
use crate::error::Result;

/// Which models have a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// All models.
    Always,
    /// No model.
    Never,
    /// Decided by these configuration keys and the layer.
    When(&'static str, fn(&Config, u64) -> Result<Presence>),
    /// Decided by a flag of the configuration.
    Flag(&'static str),
}

/// The presence of a tensor in a layer, by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Needed,
    /// Optional: in all such layers or in none.
    Allowed,
    /// Optional in every layer.
    Loose,
    Surplus,
}

impl Need {
    /// The deciding keys, for messages.
    pub(crate) fn keys(self) -> Option<&'static str> {
        match self {
            Self::Always | Self::Never => None,
            Self::When("", _) => None,
            Self::When(keys, _) | Self::Flag(keys) => Some(keys),
        }
    }

    pub(crate) fn of(self, config: &Config, layer: u64) -> Result<Presence> {
        match self {
            Self::Always => Ok(Presence::Needed),
            Self::Never => Ok(Presence::Surplus),
            Self::When(_, decide) => decide(config, layer),
            Self::Flag(key) => flagged(config, key),
        }
    }
}

/// The presence of a tensor that several rules are for: in a layer, that of the first rule that applies there.
pub(crate) fn of_any(needs: &[Need], config: &Config, layer: u64) -> Result<Presence> {
    for need in needs {
        match need.of(config, layer)? {
            Presence::Surplus => {}
            presence => return Ok(presence),
        }
    }
    Ok(Presence::Surplus)
}

/// The keys that decide which layers have experts, in checkpoints and in GGUF.
const OF_EXPERTS: &str = "num_local_experts, num_experts, n_routed_experts or expert_count, first_k_dense_replace or \
                          leading_dense_block_count, mlp_only_layers, decoder_sparse_step, moe_layer_freq, \
                          num_dense_layers, moe_num_experts, moe_num_primary_experts, mlp_layer_types";

/// The presence of a tensor by a flag; without the flag it is optional.
pub(crate) fn flagged(config: &Config, key: &str) -> Result<Presence> {
    Ok(match config.flag(key)? {
        Some(true) => Presence::Needed,
        Some(false) => Presence::Surplus,
        None => Presence::Allowed,
    })
}

pub(crate) fn needed_if(is_needed: bool) -> Presence {
    if is_needed { Presence::Needed } else { Presence::Surplus }
}

/// The head of a model without tied embeddings. With tied embeddings it is optional.
pub(crate) const UNTIED: Need = Need::When("tie_word_embeddings", |config, _| {
    Ok(match config.flag("tie_word_embeddings")? {
        Some(true) => Presence::Allowed,
        _ => Presence::Needed,
    })
});
/// Biases of the attention projections.
pub(crate) const ATTENTION_BIAS: Need = Need::Flag("attention_bias");
/// Biases of the feed-forward network.
pub(crate) const MLP_BIAS: Need = Need::When("mlp_bias", |config, layer| match has_experts(config, layer)? {
    true => Ok(Presence::Surplus),
    false => flagged(config, "mlp_bias"),
});
/// The feed-forward network of layers without experts.
pub(crate) const DENSE: Need = Need::When(OF_EXPERTS, |config, layer| Ok(needed_if(!has_experts(config, layer)?)));
/// The routed experts of MoE layers.
pub(crate) const SPARSE: Need = Need::When(OF_EXPERTS, |config, layer| Ok(needed_if(has_experts(config, layer)?)));
/// Tensors that MoE layers may have.
pub(crate) const OPTIONAL_SPARSE: Need = Need::When(OF_EXPERTS, |config, layer| {
    Ok(if has_experts(config, layer)? { Presence::Allowed } else { Presence::Surplus })
});
/// Tensors that all layers of a model have, or none.
pub(crate) const OPTIONAL: Need = Need::When("", |_, _| Ok(Presence::Allowed));
/// The shared expert of MoE layers, in models that have one.
pub(crate) const SHARED: Need = Need::When(OF_SHARED, |config, layer| {
    let shared = config
        .count(&[
            "shared_expert_intermediate_size",
            "n_shared_experts",
            "num_shared_experts",
            "moe_num_shared_experts",
        ])?
        .unwrap_or(0);
    Ok(needed_if(shared > 0 && has_experts(config, layer)?))
});

/// The keys that decide on a shared expert.
const OF_SHARED: &str = "shared_expert_intermediate_size or expert_shared_feed_forward_length, n_shared_experts, num_shared_experts, \
                         moe_num_shared_experts or expert_shared_count, num_experts, n_routed_experts or expert_count, first_k_dense_replace or \
                         leading_dense_block_count, mlp_only_layers, decoder_sparse_step, moe_layer_freq";

/// The configuration keys of the number of leading layers without experts.
pub(crate) const LEADING_DENSE: &[&str] = &["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"];

/// Whether a layer has experts.
pub(crate) fn has_experts(config: &Config, layer: u64) -> Result<bool> {
    if config.count(ALL_EXPERT_KEYS)?.unwrap_or(0) == 0 {
        return Ok(false);
    }
    if let Some(kind) = config.text_of_layer("mlp_layer_types", layer)? {
        return Ok(kind != "dense");
    }
    let leading = config.count(LEADING_DENSE)?.unwrap_or(0);
    let dense = config.get("mlp_only_layers");
    let dense = match dense.map(|layers| layers.as_array().ok_or(layers)) {
        None => &[][..],
        Some(Ok(layers)) => layers,
        Some(Err(value)) => return Err(unexpected("mlp_only_layers", value, "a list of layers")),
    };
    // Every nth layer has experts: the last of n, or the first.
    let every = |key: &str| if config.get(key).is_some() { config.divisor(key) } else { Ok(1) };
    let is_dense = layer < leading || dense.iter().any(|number| number.as_u64() == Some(layer));
    if let Some(list) = config.get("moe_layer_freq").and_then(Value::as_array) {
        let item = list.get(usize::try_from(layer).unwrap_or(usize::MAX));
        return Ok(item.is_some_and(|item| item.as_u64() != Some(0)));
    }
    let is_turn = (layer + 1).is_multiple_of(every("decoder_sparse_step")?)
        && (layer + 1).is_multiple_of(every("moe_layer_interval")?)
        && layer.is_multiple_of(every("moe_layer_freq")?);
    let is_last = config.count(&["moe_layer_end_index"])?.is_none_or(|last| layer <= last);
    Ok(!is_dense && is_turn && is_last)
}
