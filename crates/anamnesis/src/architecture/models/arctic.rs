//! Arctic: experts beside a small feed-forward network.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

/// Arctic: experts beside a small feed-forward network.
pub(super) static ARCTIC: Architecture = Architecture {
    name: "arctic",
    classes: &[class("ArcticForCausalLM", "arctic")],
    rules: &[EMBED_NORM_HEAD, PERMUTED_ATTENTION, ARCTIC_LAYER, MIXTURE],
    keys: &[COMMON, ARCTIC_KEYS],
    derived_tensors: &[],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, arctic_types: true, ..BPE },
    ..LLAMA
};

const ARCTIC_LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("residual_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm_exps.*", &[HIDDEN]),
    layer("residual_mlp.w1.*", "ffn_gate.*", &[HIDDEN, HIDDEN]),
    layer("residual_mlp.w2.*", "ffn_down.*", &[HIDDEN, HIDDEN]),
    layer("residual_mlp.w3.*", "ffn_up.*", &[HIDDEN, HIDDEN]),
];

const ARCTIC_KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
];
