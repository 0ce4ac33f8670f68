//! The number of parameters of a model: those that transformers' `num_parameters()` counts in the loaded model.

use std::collections::HashMap;

use super::contents::{ContentTensor, Contents};
use super::names::{LayerName, is_language};
use super::settings::{LAYER_KEYS, Settings};
use crate::architecture::key::EXPERT_KEYS;

/// Parameters of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Parameters of the loaded model, tied ones once; `None` if a weight cannot be decoded.
    pub total: Option<u64>,
    /// Parameters that one token uses; `None` without experts, or if their number is unknown.
    pub active: Option<u64>,
    /// Decoded values of all tensors; `None` if a weight cannot be decoded.
    pub stored: Option<u64>,
    /// Values of buffers: constants and statistics that are not trained.
    pub buffers: u64,
    /// Values of tensors that repeat others.
    pub tied: u64,
    /// Values of layers for multi-token prediction, which are not part of the loaded model.
    pub not_loaded: u64,
}

/// Tensors that are buffers in transformers, by the end of their names, and model types where they are parameters.
const BUFFERS: &[(&str, &[&str])] = &[
    ("e_score_correction_bias", &["ernie4_5_moe", "ernie4_5_vl_moe", "ernie4_5_moe_vl", "laguna"]),
    ("expert_bias", &["afmoe"]),
    ("balancing_biases", &[]),
    ("layer_scalar", &[]),
    ("running_mean", &[]),
    ("running_var", &[]),
    ("num_batches_tracked", &[]),
    ("final_logits_bias", &[]),
    ("inv_freq", &[]),
    ("position_ids", &[]),
    ("relative_position_index", &[]),
    ("token_ordering", &[]),
    ("tid2eid", &[]),
    ("act_fn.beta", &[]),
    ("act_fn.eps", &[]),
    ("input_min", &[]),
    ("input_max", &[]),
    ("output_min", &[]),
    ("output_max", &[]),
    ("std_bias", &[]),
    ("std_scale", &[]),
    ("attn.masked_bias", &[]),
    ("attention.masked_bias", &[]),
    ("rotary_emb.freqs", &[]),
];

/// The same in GGUF.
const GGUF_BUFFERS: [&str; 5] =
    ["exp_probs_b.bias", "exp_probs_b", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// Names of heads and of embeddings that they can be tied to.
const HEADS: [&str; 4] = ["lm_head.weight", "embed_out.weight", "output.weight", "cls.predictions.decoder.weight"];
const EMBEDDINGS: [&str; 8] = [
    "embed_tokens.weight",
    "embed_in.weight",
    "wte.weight",
    "word_embeddings.weight",
    "embeddings.weight",
    "tok_embeddings.weight",
    "token_embd.weight",
    "shared.weight",
];

/// Configuration keys for the number of experts that a token uses.
const USED_KEYS: &[&str] =
    &["num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k"];

/// The numbers of experts, and of those that a token uses.
pub(super) fn experts(settings: &Settings) -> (Option<u64>, Option<u64>) {
    let keys: Vec<&str> = EXPERT_KEYS.iter().copied().chain(["moe_num_experts", "n_experts"]).collect();
    let experts = settings.count(&keys, "expert_count").filter(|experts| *experts > 0);
    (experts, settings.count(USED_KEYS, "expert_used_count"))
}

impl Parameters {
    pub(super) fn of(contents: &Contents<'_>, settings: Option<&Settings>) -> Self {
        let mut counts = Self { stored: contents.values(), ..Self::default() };
        let layers = settings.and_then(|settings| LoadedLayers::of(contents, settings));
        let tied = settings.and_then(|settings| tied_head(contents, settings));
        let mut of_experts = 0u64;
        for tensor in &contents.tensors {
            let values = tensor.values.unwrap_or(0);
            let sum = match settings {
                _ if tensor.is_alias => &mut counts.tied,
                Some(_) if tied == Some(tensor.name) => &mut counts.tied,
                Some(_) if is_prediction_head(tensor.name) => &mut counts.not_loaded,
                Some(_) if layers.as_ref().is_some_and(|layers| !layers.has(tensor.name)) => &mut counts.not_loaded,
                Some(settings) if is_buffer(tensor, contents, settings) => &mut counts.buffers,
                _ if is_of_expert(tensor) => &mut of_experts,
                _ => continue,
            };
            *sum = sum.saturating_add(values);
        }
        let others = counts.buffers.saturating_add(counts.tied).saturating_add(counts.not_loaded);
        counts.total = counts.stored.map(|stored| stored.saturating_sub(others));
        if let (Some(total), Some((Some(all), Some(used)))) = (counts.total, settings.map(experts))
            && of_experts > 0
        {
            let used = u128::from(of_experts) * u128::from(used.min(all)) / u128::from(all);
            let used = u64::try_from(used).unwrap_or(of_experts);
            counts.active = Some(total.saturating_sub(of_experts).saturating_add(used));
        }
        counts
    }
}

/// Whether a tensor belongs to one of the experts that a router chooses from.
fn is_of_expert(tensor: &ContentTensor<'_>) -> bool {
    let pieces = || tensor.name.split('.');
    pieces().any(|piece| piece == "experts" || piece.ends_with("_exps"))
        || (tensor.shape.as_deref().is_some_and(|shape| shape.len() == 3)
            && ["block_sparse_moe.input_linear.", "block_sparse_moe.output_linear."]
                .iter()
                .any(|module| tensor.name.contains(module)))
}

fn is_buffer(tensor: &ContentTensor<'_>, contents: &Contents<'_>, settings: &Settings) -> bool {
    let name = tensor.name;
    if settings.is_gguf() {
        return GGUF_BUFFERS.iter().any(|buffer| ends_with_module(name, buffer));
    }
    let is_quantized = contents.kinds.get(tensor.kind).is_some_and(|kind| kind.is_quantized);
    // Parameters are floats.
    if !is_quantized && !tensor.dtype.is_floating_point() {
        return true;
    }
    let types = [settings.model_type(), settings.outer_type()];
    let is_parameter = |types_of: &[&str]| types.iter().flatten().any(|name| types_of.contains(name));
    BUFFERS.iter().any(|(end, parameters)| ends_with_module(name, end) && !is_parameter(parameters))
}

/// Whether a name ends with whole pieces.
fn ends_with_module(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// Whether a tensor is part of a module for multi-token prediction, which transformers does not load.
fn is_prediction_head(name: &str) -> bool {
    name.split('.').any(|piece| piece == "mtp" || piece.starts_with("mtp_"))
}

/// Whether a tensor is the embedding of the vocabulary of a language model.
pub(super) fn is_embedding(name: &str) -> bool {
    is_language(name) && EMBEDDINGS.iter().any(|end| ends_with_module(name, end))
}

/// The head, if it is tied to an embedding that is stored too.
fn tied_head<'a>(contents: &Contents<'a>, settings: &Settings) -> Option<&'a str> {
    if settings.is_gguf() || settings.flag("tie_word_embeddings") != Some(true) {
        return None;
    }
    let named = |ends: &'static [&str]| {
        let is_named = move |name: &str| ends.iter().any(|end| ends_with_module(name, end));
        contents.tensors.iter().filter(move |tensor| is_named(tensor.name))
    };
    let is_tied = |head: &&ContentTensor<'_>| named(&EMBEDDINGS).any(|embedding| embedding.shape == head.shape);
    named(&HEADS).find(is_tied).map(|head| head.name)
}

/// The layers of the language model: those after the last are for multi-token prediction, and not loaded.
struct LoadedLayers<'a> {
    list: &'a str,
    count: u64,
}

impl<'a> LoadedLayers<'a> {
    fn of(contents: &Contents<'a>, settings: &Settings) -> Option<Self> {
        if settings.is_gguf() || settings.flag("is_encoder_decoder") == Some(true) {
            return None;
        }
        let count = settings.count(LAYER_KEYS, "block_count")?;
        let list = main_list(contents, settings)?;
        Some(Self { list, count })
    }

    fn has(&self, name: &str) -> bool {
        LayerName::of(name).is_none_or(|layer| layer.list != self.list || layer.index < self.count)
    }
}

/// The list of layers of the language model: one that is no encoder, that has as many layers as the configuration, and
/// the most tensors, in this order.
pub(super) fn main_list<'a>(contents: &Contents<'a>, settings: &Settings) -> Option<&'a str> {
    let declared = settings.count(LAYER_KEYS, "block_count");
    let mut lists: HashMap<&str, (u64, usize)> = HashMap::new();
    for layer in contents.tensors.iter().filter_map(|tensor| LayerName::of(tensor.name)) {
        if layer.is_language() {
            let (layers, tensors) = lists.entry(layer.list).or_default();
            *layers = (*layers).max(layer.index.saturating_add(1));
            *tensors += 1;
        }
    }
    let rank = |(list, (layers, tensors)): &(&'a str, (u64, usize))| {
        let has_all = declared.is_some_and(|declared| *layers >= declared);
        (!list.contains("encoder"), has_all, *tensors, std::cmp::Reverse(*list))
    };
    lists.into_iter().max_by_key(rank).map(|(list, _)| list)
}
