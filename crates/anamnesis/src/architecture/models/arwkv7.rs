//! ARWKV 7: the time mix of RWKV 7 in place of Qwen 2's attention.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

use super::rwkv::{CONTEXT, FIRST, HEAD_COUNT, HEAD_SIZE, LERPS, NO_HEADS, SQUEEZED, TRANSPOSED};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "arwkv7",
    classes: &[class("RwkvHybridForCausalLM", "rwkv_hybrid")],
    renames: &[Rename::Anywhere("self_attn.", "attention."), Rename::Anywhere("time_mixer.", "")],
    // The first layer has no values of a layer before it.
    dropped: &["model.layers.0.attention.v0", "model.layers.0.attention.v1", "model.layers.0.attention.v2"],
    rules: &[EMBED_NORM_HEAD, NORMS, GATED_FFN, TIME_MIX],
    keys: &[KEYS],
    tokenizer: PIECES_OR_BPE,
    restore: None,
    not_held: Some("settings of its class such as the layers with attention"),
    ..PLAIN
};

const fn fixed(of: fn(&Config) -> Result<u64>, gguf: &'static str) -> Size {
    size(of, "", gguf)
}

const DECAY: Size = fixed(|_| Ok(64), "attention.decay_lora_rank");
const RATE: Size = fixed(|_| Ok(64), "attention.iclr_lora_rank");
const VALUE_MIX: Size = fixed(|_| Ok(32), "attention.value_residual_mix_lora_rank");
const GATE: Size =
    size(|config| Ok(if has_gate(config)? { 128 } else { 0 }), "wkv_has_gate", "attention.gate_lora_rank");
/// The rank of the first layer's values is that of the rates.
const VALUE_OR_RATE: Size = layer_size(
    |config, layer| if layer == 0 { (RATE.of)(config) } else { (VALUE_MIX.of)(config) },
    "",
    "attention.value_residual_mix_lora_rank, attention.iclr_lora_rank",
);

const GATE_KEY: &str = "wkv_has_gate";

fn has_gate(config: &Config) -> Result<bool> {
    match config.flag(GATE_KEY)? {
        Some(has_gate) => Ok(has_gate),
        None => Err(AnamnesisError::parse("config.json has no \"wkv_has_gate\"")),
    }
}

const GATED: Need = Need::When(GATE_KEY, |config, _| Ok(needed_if(has_gate(config)?)));

const TIME_MIX: &[Rule] = &[
    layer("attention.x_{r|w|k|v|a|g}", "time_mix_lerp_fused.weight", &[LERPS, ONE, ONE, HIDDEN]),
    layer("attention.x_x", "time_mix_lerp_fused.weight", &[LERPS, ONE, ONE, HIDDEN])
        .with(&[Change::Shaped(&[LERPS, ONE, ONE, HIDDEN], &[LERPS, ONE, ONE, HIDDEN])]),
    layer("attention.v0", "time_mix_v0.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.v1", "time_mix_v1.weight", &[VALUE_OR_RATE, HIDDEN]).with(TRANSPOSED),
    layer("attention.v2", "time_mix_v2.weight", &[HIDDEN, VALUE_OR_RATE]).with(TRANSPOSED),
    layer("attention.a0", "time_mix_v0.weight", &[HIDDEN]).with(SQUEEZED).when(FIRST),
    layer("attention.a1", "time_mix_v1.weight", &[VALUE_OR_RATE, HIDDEN]).with(TRANSPOSED).when(FIRST),
    layer("attention.a2", "time_mix_v2.weight", &[HIDDEN, VALUE_OR_RATE]).with(TRANSPOSED).when(FIRST),
    layer("attention.a0", "time_mix_a0.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.a1", "time_mix_a1.weight", &[RATE, HIDDEN]).with(TRANSPOSED),
    layer("attention.a2", "time_mix_a2.weight", &[HIDDEN, RATE]).with(TRANSPOSED),
    layer("attention.g1", "time_mix_g1.weight", &[GATE, HIDDEN]).with(TRANSPOSED).when(GATED),
    layer("attention.g2", "time_mix_g2.weight", &[HIDDEN, GATE]).with(TRANSPOSED).when(GATED),
    layer("attention.w0", "time_mix_w0.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.w1", "time_mix_w1.weight", &[DECAY, HIDDEN]).with(TRANSPOSED),
    layer("attention.w2", "time_mix_w2.weight", &[HIDDEN, DECAY]).with(TRANSPOSED),
    layer("attention.k_k", "time_mix_k_k.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.k_a", "time_mix_k_a.weight", &[HIDDEN]).with(SQUEEZED),
    layer("attention.r_k", "time_mix_r_k.weight", &[HIDDEN])
        .with(&[Change::Shaped(&[HEAD_COUNT, HEAD_SIZE], &[HIDDEN])]),
    layer("attention.key.*", "time_mix_key.*", &[HIDDEN, HIDDEN]),
    layer("attention.value.*", "time_mix_value.*", &[HIDDEN, HIDDEN]),
    layer("attention.receptance.*", "time_mix_receptance.*", &[HIDDEN, HIDDEN]),
    layer("attention.output.*", "time_mix_output.*", &[HIDDEN, HIDDEN]),
    layer("attention.ln_x.*", "time_mix_ln.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
];

const KEYS: &[Key] = &[
    CONTEXT,
    needed("embedding_length", "hidden_size"),
    count("block_count", LAYER_KEYS),
    needed_real("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    needed("wkv.head_size", "head_size"),
    count_fn("attention.decay_lora_rank", |config| match config.needed("wkv_version")? {
        7 => (DECAY.of)(config).map(Some),
        other => Err(AnamnesisError::parse(format!("config.json: \"wkv_version\" is {other}, 7 is needed"))),
    }),
    count_fn("attention.iclr_lora_rank", |config| (RATE.of)(config).map(Some)),
    count_fn("attention.value_residual_mix_lora_rank", |config| (VALUE_MIX.of)(config).map(Some)),
    count_fn("attention.gate_lora_rank", |config| (GATE.of)(config).map(Some)),
    needed("feed_forward_length", "intermediate_size"),
    FILE_TYPE,
    count_fn("token_shift_count", |_| Ok(Some(1))),
    NO_HEADS,
];
