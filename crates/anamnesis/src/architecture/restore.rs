//! GGUF to Hugging Face: keys of `config.json` that several architectures restore alike.

use serde_json::{Map, Value};

use super::gguf::Gguf;
use crate::error::Result;

/// Sets a key of a configuration.
pub(super) fn set(config: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    config.insert(key.to_owned(), value.into());
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
