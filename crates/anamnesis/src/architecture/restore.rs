//! GGUF to Hugging Face: keys of `config.json` that several architectures restore alike.

use serde_json::{Map, Value};

use super::gguf::{Gguf, shortest};
use super::key_names::LAYER_KEYS;
use super::rope_freqs;
use crate::error::Result;

/// Sets a key of a configuration.
pub(super) fn set(config: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    config.insert(key.to_owned(), value.into());
}

/// Sizes that some architectures derive, and the keys of configurations that have them.
const SIZES: [(&str, &str); 8] = [
    ("attention.sliding_window", "sliding_window"),
    ("feed_forward_length", "intermediate_size"),
    ("leading_dense_block_count", "first_k_dense_replace"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_count", "n_shared_experts"),
    ("expert_shared_feed_forward_length", "shared_intermediate_size"),
    ("embedding_length_per_layer_input", "hidden_size_per_layer_input"),
    ("hyper_connection.count", "hc_mult"),
];

/// The scaling of positions and the keys of most architectures besides those of their tables.
pub(super) fn plain(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    rope_freqs::restore_scaling(file, config)?;
    keys(file, config);
    Ok(0)
}

/// The keys of most architectures besides those of their tables. Activation functions are those of the class.
pub(super) fn keys(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    config.remove("hidden_act");
    nextn_layers(file, config, "num_nextn_predict_layers");
    for (key, name) in SIZES {
        if let (Some(size), false) = (file.count(key), config.contains_key(name)) {
            set(config, name, size);
        }
    }
    if file.count("attention.key_length_mla").is_some() {
        latent(file, config);
    }
    if let Some(kinds) = file.flags("attention.sliding_window_pattern") {
        set(config, "layer_types", kinds_by(kinds, "sliding_attention", "full_attention"));
    }
    if let Some(kinds) = file.flags("attention.recurrent_layers") {
        let kinds = kinds.get(..layers_of(config)).unwrap_or(kinds);
        set(config, "layer_types", kinds_by(kinds, "linear_attention", "full_attention"));
    }
    if let Some(kinds) = file.flags("attention.indexer.types") {
        set(config, "indexer_types", kinds_by(kinds, "full", "shared"));
    }
    match file.count("expert_gating_func") {
        Some(1) => set(config, "scoring_func", "softmax"),
        Some(2) => set(config, "scoring_func", "sigmoid"),
        Some(4) => set(config, "scoring_func", "sqrtsoftplus"),
        _ => {}
    }
    if let Some(Value::Array(mut sections)) = file.count_or_list("rope.dimension_sections") {
        sections.truncate(3);
        let scaling = config.entry("rope_scaling").or_insert_with(|| serde_json::json!({"rope_type": "default"}));
        if let Value::Object(scaling) = scaling {
            scaling.insert("mrope_section".to_owned(), sections.into());
        }
    }
    if let (Some(dimensions), Some(size)) = (file.count("rope.dimension_count"), head_size(file))
        && dimensions != size
        && file.count("attention.key_length_mla").is_none()
    {
        set(config, "partial_rotary_factor", dimensions as f64 / size as f64);
    }
}

/// The size of a head, which is not zero.
fn head_size(file: &Gguf<'_>) -> Option<u64> {
    let share =
        || Some(file.count("embedding_length")? / file.count("attention.head_count").filter(|heads| *heads > 0)?);
    file.count("attention.key_length").or_else(share).filter(|size| *size > 0)
}

/// The number of layers of a configuration.
fn layers_of(config: &Map<String, Value>) -> usize {
    let layers = LAYER_KEYS.iter().find_map(|key| config.get(*key)?.as_u64());
    layers.and_then(|layers| usize::try_from(layers).ok()).unwrap_or(0)
}

/// Names for flags, one per layer.
pub(super) fn kinds_by(flags: &[bool], one: &str, other: &str) -> Vec<Value> {
    flags.iter().map(|is_one| Value::from(if *is_one { one } else { other })).collect()
}

/// Whether each layer has a tensor.
pub(super) fn layers_with<'a>(file: &'a Gguf<'_>, tensor: &'a str) -> impl Iterator<Item = bool> + 'a {
    let layers = file.count("block_count").unwrap_or(0);
    (0..layers).map(move |layer| file.has(&format!("blk.{layer}.{tensor}")))
}

/// The first of the layers with a tensor, and the distance to the next; with only one, the number of layers.
pub(super) fn offset_and_period(file: &Gguf<'_>, tensor: &str) -> Option<(u64, u64)> {
    let mut layers = (0..).zip(layers_with(file, tensor)).filter_map(|(layer, has)| has.then_some(layer));
    let first = layers.next()?;
    let period = layers.next().map_or_else(|| file.count("block_count"), |next| Some(next - first));
    Some((first, period?))
}

/// The layers for multi-token prediction, which `block_count` includes.
pub(super) fn nextn_layers(file: &Gguf<'_>, config: &mut Map<String, Value>, key: &str) {
    let Some(next) = file.count("nextn_predict_layers") else { return };
    set(config, key, next);
    if let (Some(layers), Some(own)) =
        (file.count("block_count"), LAYER_KEYS.iter().find(|own| config.contains_key(**own)))
    {
        set(config, own, layers.saturating_sub(next));
    }
}

/// `num_key_value_heads` of the layers that have any, from the list of all layers.
pub(super) fn most_kv_heads(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    if let Some(Value::Array(heads)) = file.count_or_list("attention.head_count_kv") {
        set(config, "num_key_value_heads", heads.iter().filter_map(Value::as_u64).max().unwrap_or(0));
    }
}

/// `layer_types` by the heads of keys and values in every layer, of which `other` layers have none.
pub(super) fn kinds_by_kv_heads(file: &Gguf<'_>, config: &mut Map<String, Value>, key: &str, own: &str, other: &str) {
    let Some(Value::Array(heads)) = file.count_or_list("attention.head_count_kv") else { return };
    let counts: Vec<u64> = heads.iter().filter_map(Value::as_u64).take(layers_of(config)).collect();
    if let Some(most) = counts.iter().max() {
        set(config, "num_key_value_heads", *most);
    }
    let has_heads: Vec<bool> = counts.iter().map(|heads| *heads > 0).collect();
    set(config, key, kinds_by(&has_heads, own, other));
}

/// The sizes of multi-head latent attention, and of DeepSeek's experts.
pub(super) fn latent(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    if file.count("expert_count").is_some() && config.contains_key("n_routed_experts") {
        config.remove("num_local_experts");
    }
    if let Some(heads) = file.count("attention.head_count") {
        set(config, "num_key_value_heads", heads);
    }
    for (key, from) in [
        ("first_k_dense_replace", "leading_dense_block_count"),
        ("intermediate_size", "feed_forward_length"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("n_shared_experts", "expert_shared_count"),
    ] {
        if let Some(count) = file.count(from) {
            set(config, key, count);
        }
    }
    if let (Some(whole), Some(rope)) = (file.count("attention.key_length_mla"), file.count("rope.dimension_count")) {
        set(config, "qk_nope_head_dim", whole.saturating_sub(rope));
        set(config, "qk_rope_head_dim", rope);
        set(config, "head_dim", rope);
    }
    if file.count("attention.q_lora_rank").is_none() {
        set(config, "q_lora_rank", Value::Null);
    }
    if let (Some(scale), Some(Value::Object(scaling))) =
        (file.real("rope.scaling.yarn_log_multiplier"), config.get_mut("rope_scaling"))
    {
        // GGUF has a tenth of it.
        let scale = shortest((scale * 10.0) as f32);
        scaling.insert("mscale".to_owned(), scale.into());
        scaling.insert("mscale_all_dim".to_owned(), scale.into());
    }
}

/// The activation function of Gemma and StarCoder, by its name in configurations.
pub(super) const GELU: &str = "gelu_pytorch_tanh";

/// `query_pre_attn_scalar`: the head size, or hidden size / heads in the largest model, which has `layers_of_largest`
/// layers.
pub(super) fn gemma_queries(file: &Gguf<'_>, config: &mut Map<String, Value>, layers_of_largest: u64) {
    set(config, "hidden_activation", GELU);
    config.remove("hidden_act");
    let heads = file.count("attention.head_count").filter(|heads| *heads > 0);
    let size = match (file.count("block_count"), file.count("embedding_length"), heads) {
        (Some(layers), Some(width), Some(heads)) if layers == layers_of_largest => Some(width / heads),
        _ => file.count("attention.key_length"),
    };
    if let Some(size) = size {
        set(config, "query_pre_attn_scalar", size);
    }
}

/// The keys of experts besides their sizes: `norm_topk_prob`, and the layers without experts.
pub(super) fn experts(file: &Gguf<'_>, config: &mut Map<String, Value>, is_normed: bool) -> Result<usize> {
    if let Some(experts) = file.count("expert_count") {
        set(config, "num_experts", experts);
    }
    set(config, "norm_topk_prob", is_normed);
    set(config, "decoder_sparse_step", 1);
    let of_experts = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    let dense = |layer: &u64| of_experts.iter().all(|name| !file.has(&format!("blk.{layer}.{name}.weight")));
    let dense: Vec<u64> = (0..file.count("block_count").unwrap_or(0)).filter(dense).collect();
    set(config, "mlp_only_layers", dense);
    set(config, "use_sliding_window", false);
    Ok(0)
}

/// `layer_types` of a model with a sliding window in all layers but every `period`th.
pub(super) fn layer_types(file: &Gguf<'_>, config: &mut Map<String, Value>, period: u64) {
    let layers = file.count("block_count").unwrap_or(0);
    let kind = |layer| if (layer + 1) % period == 0 { "full_attention" } else { "sliding_attention" };
    set(config, "layer_types", (0..layers).map(kind).collect::<Vec<_>>());
}

/// The share of a head's dimensions that RoPE rotates.
pub(super) fn partial_rotary_factor(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    if let (Some(dimensions), Some(size @ 1..)) =
        (file.count("rope.dimension_count"), file.count("attention.key_length"))
    {
        set(config, "partial_rotary_factor", dimensions as f64 / size as f64);
    }
}

/// The sizes and biases of state-space layers without attention.
pub(super) fn state_space(file: &Gguf<'_>, config: &mut Map<String, Value>) {
    if let Some(inner) = file.count("ssm.inner_size") {
        set(config, "intermediate_size", inner);
        if let Some(width @ 1..) = file.count("embedding_length") {
            set(config, "expand", inner / width);
        }
    }
    // llama.cpp does not load a file without this bias.
    set(config, "use_conv_bias", true);
    set(config, "use_bias", file.has_in_layers(&["ssm_in.bias"]));
}
