//! Talkie: factors instead of norms, and RoPE in the other direction.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "talkie",
    classes: &[class("TalkieForCausalLM", "talkie")],
    layer_prefix: "model.blocks.",
    rules: &[TENSORS],
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

const TENSORS: &[Rule] = &[
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
