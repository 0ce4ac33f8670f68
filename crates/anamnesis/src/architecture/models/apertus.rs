//! Models with numbers of their own that files have as tensors: Apertus, Talkie, and BitNet, whose weights become ternary.

use crate::architecture::families::{LLAMA, PLAIN};
use crate::architecture::prelude::*;

/// Apertus: xIELU, whose parameters are metadata in GGUF.
pub(super) static APERTUS: Architecture = Architecture {
    name: "apertus",
    classes: &[class("ApertusForCausalLM", "apertus")],
    rules: &[EMBED_NORM_HEAD, APERTUS_LAYER, ATTENTION, QK_NORMS],
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
    derived_tensors: &[DerivedTensor { name: "rope_freqs.weight", values: frequencies }],
    restore: None,
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

const APERTUS_LAYER: &[Rule] = &[
    layer("attention_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
    layer(ALPHA_N, "", &[]).left_out(),
    layer(ALPHA_P, "", &[]).left_out(),
    layer(BETA, "", &[]).left_out(),
    layer(EPSILON, "", &[]).left_out(),
];

/// Talkie: factors instead of norms, and RoPE in the other direction.
pub(super) static TALKIE: Architecture = Architecture {
    name: "talkie",
    classes: &[class("TalkieForCausalLM", "talkie")],
    layer_prefix: "model.blocks.",
    rules: &[TALKIE_TENSORS],
    read_tensors: &[read(HEAD_GAIN, Measure::Values)],
    early_keys: &[real_fn("logit_scale", |config| match config.measured.get(None, HEAD_GAIN) {
        Some(&[gain]) => Ok(Some(f64::from(gain))),
        _ => Err(AnamnesisError::parse("it is missing, or has more than one value").in_tensor(HEAD_GAIN)),
    })],
    // The norm of torch without an epsilon.
    keys: &[COMMON, &[real_fn("attention.layer_norm_rms_epsilon", |_| Ok(Some(f64::from(f32::EPSILON))))]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt4o, "talkie")], ..BPE },
    restore: None,
    ..PLAIN
};

const HEAD_GAIN: &str = "lm_head_gain.w_g";
const REVERSED: &[Change] = &[Change::NegatedHalf(HEAD_DIM)];

const TALKIE_TENSORS: &[Rule] = &[
    model("model.embed.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    model(HEAD_GAIN, "", &[]).left_out(),
    layer("attn.attn_query.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(REVERSED),
    layer("attn.attn_key.weight", "attn_k.weight", &[KV_DIM, HIDDEN]).with(REVERSED),
    layer("attn.attn_value.*", "attn_v.*", &[KV_DIM, HIDDEN]),
    layer("attn.attn_resid.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("attn.head_gain.head_g", "attn_q_norm.weight", &[HEADS, ONE]).with(&[Change::Column]),
    layer("attn_gain.a_g", "attn_output.scale", &[ONE]),
    layer("embed_skip.a_g", "layer_output_scale.weight", &[ONE]),
    layer("mlp.mlp_gate.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("mlp.mlp_linear.*", "ffn_up.*", &[FFN, HIDDEN]),
    layer("mlp.mlp_resid.*", "ffn_down.*", &[HIDDEN, FFN]),
    layer("mlp_gain.a_g", "ffn_down.scale", &[ONE]),
];

/// BitNet b1.58.
pub(super) static BITNET: Architecture = Architecture {
    name: "bitnet",
    classes: &[class("BitnetForCausalLM", "bitnet"), class("BitNetForCausalLM", "bitnet")],
    rules: &[EMBED_NORM_HEAD, NORMS, TERNARY],
    read_tensors: &[
        read_in_layers(Q, Measure::MeanMagnitude),
        read_in_layers(K, Measure::MeanMagnitude),
        read_in_layers(V, Measure::MeanMagnitude),
        read_in_layers(OUTPUT, Measure::MeanMagnitude),
        read_in_layers(GATE, Measure::MeanMagnitude),
        read_in_layers(UP, Measure::MeanMagnitude),
        read_in_layers(DOWN, Measure::MeanMagnitude),
    ],
    keys: &[COMMON, LINEAR],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    restore: None,
    ..PLAIN
};

const Q: &str = "self_attn.q_proj.weight";
const K: &str = "self_attn.k_proj.weight";
const V: &str = "self_attn.v_proj.weight";
const OUTPUT: &str = "self_attn.o_proj.weight";
const GATE: &str = "mlp.gate_proj.weight";
const UP: &str = "mlp.up_proj.weight";
const DOWN: &str = "mlp.down_proj.weight";

const TERNARY: &[Rule] = &[
    layer(Q, "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[Change::Ternary(Q)]),
    layer(K, "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[Change::Ternary(K)]),
    layer(V, "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Ternary(V)]),
    layer(OUTPUT, "attn_output.weight", &[HIDDEN, Q_DIM]).with(&[Change::Ternary(OUTPUT)]),
    layer(GATE, "ffn_gate.weight", &[FFN, HIDDEN]).with(&[Change::Ternary(GATE)]),
    layer(UP, "ffn_up.weight", &[FFN, HIDDEN]).with(&[Change::Ternary(UP)]),
    layer(DOWN, "ffn_down.weight", &[HIDDEN, FFN]).with(&[Change::Ternary(DOWN)]),
    layer("self_attn.inner_attn_ln.*", "attn_sub_norm.*", &[Q_DIM]),
    layer("mlp.ffn_layernorm.*", "ffn_sub_norm.*", &[FFN]),
];

const LINEAR: &[Key] =
    &[text_fn("rope.scaling.type", |_| Ok(Some("linear"))), real_fn("rope.scaling.factor", |_| Ok(Some(1.0)))];
