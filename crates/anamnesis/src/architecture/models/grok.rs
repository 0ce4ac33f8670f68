//! Grok 1.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// Grok 1.
pub(super) static GROK: Architecture = Architecture {
    name: "grok",
    classes: &[class("GrokForCausalLM", "grok-1"), class("Grok1ForCausalLM", "grok-1")],
    rules: &[GROK_TENSORS, GROK_ATTENTION, MIXTURE],
    keys: &[COMMON, GROK_KEYS],
    tokenizer: PIECES_OR_BPE,
    ..PLAIN
};

const GROK_ATTENTION: &[Rule] = &attention(Need::Never, Need::Never);

const GROK_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("pre_attn_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attn_norm.*", "attn_output_norm.*", &[HIDDEN]),
    layer("pre_moe_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_moe_norm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(OPTIONAL),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(OPTIONAL),
];

const GROK_KEYS: &[Key] = &[
    real_or("attn_logit_softcapping", &["attn_logit_softcapping"], 30.0),
    real_or("router_logit_softcapping", &["router_logit_softcapping"], 30.0),
    real_fn("final_logit_softcapping", |config| {
        Ok(config.real(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0))
    }),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    real_fn("attention.output_scale", |config| match config.real(&["attn_output_multiplier"])? {
        Some(scale) => Ok(Some(scale)),
        None => Ok(Some((config.head_size()? as f64).powf(-0.5))),
    }),
    real("embedding_scale", &["embedding_multiplier_scale"]),
    real("logit_scale", &["output_multiplier_scale"]),
];
