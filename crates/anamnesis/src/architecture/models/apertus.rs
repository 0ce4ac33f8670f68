//! Apertus: xIELU, whose parameters are metadata in GGUF.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "apertus",
    classes: &[class("ApertusForCausalLM", "apertus")],
    rules: &[EMBED_NORM_HEAD, LAYER, ATTENTION, QK_NORMS],
    read_tensors: &[
        read_in_layers(ALPHA_N, Measure::Values),
        read_in_layers(ALPHA_P, Measure::Values),
        read_in_layers(BETA, Measure::Values),
        read_in_layers(EPSILON, Measure::Values),
    ],
    early_keys: &[
        reals_fn("xielu.alpha_n", |config| of_layers(config, ALPHA_N)),
        reals_fn("xielu.alpha_p", |config| of_layers(config, ALPHA_P)),
        reals_fn("xielu.beta", |config| of_layers(config, BETA)),
        reals_fn("xielu.eps", |config| of_layers(config, EPSILON)),
    ],
    derived_tensors: &[DerivedTensor { name: "rope_freqs.weight", row: None, values: frequencies }],
    restore: None,
    not_held: Some("the parameters of its activation as tensors, only as metadata"),
    ..LLAMA
};

/// The factors of RoPE's frequencies: without any scaling in the configuration, those of the class default.
fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    let size = config.head_size()?;
    if config.get("rope_parameters").is_some() || config.get("rope_scaling").is_some() {
        return config.rope().llama3_factors(size);
    }
    let scaling = serde_json::json!({
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    let theta = config.rope().theta()?.unwrap_or(12_000_000.0);
    let scaled = [("rope_theta".to_owned(), theta.into()), ("rope_scaling".to_owned(), scaling)];
    Config::new(&scaled.into_iter().collect(), &[])?.rope().llama3_factors(size)
}

const ALPHA_N: &str = "mlp.act_fn.alpha_n";
const ALPHA_P: &str = "mlp.act_fn.alpha_p";
const BETA: &str = "mlp.act_fn.beta";
const EPSILON: &str = "mlp.act_fn.eps";

/// A number of every layer, by its tensor.
fn of_layers(config: &Config, name: &'static str) -> Result<Option<Vec<f32>>> {
    let of_layer = |layer| match config.measured.get(Some(layer), name) {
        Some(&[number]) => Ok(number),
        Some(values) => Err(AnamnesisError::parse(format!("{name:?} of layer {layer} has {} values", values.len()))),
        None => Err(AnamnesisError::parse(format!("layer {layer} has no {name:?}"))),
    };
    config.per_layer(of_layer).map(Some)
}

const LAYER: &[Rule] = &[
    layer("attention_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
    layer(ALPHA_N, "", &[]).left_out(),
    layer(ALPHA_P, "", &[]).left_out(),
    layer(BETA, "", &[]).left_out(),
    layer(EPSILON, "", &[]).left_out(),
];
