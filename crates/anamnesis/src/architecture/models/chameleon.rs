//! Language models inside older vision models: Chameleon, and CogVLM without its vision experts.

use crate::architecture::families::{LLAMA, PLAIN};
use crate::architecture::prelude::*;

pub(super) static CHAMELEON: Architecture = Architecture {
    name: "chameleon",
    classes: &[class("ChameleonForConditionalGeneration", "chameleon"), class("ChameleonForCausalLM", "chameleon")],
    dropped: &["model.vqmodel"],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, HEAD_NORMS, GATED_FFN_BIASED],
    keys: &[COMMON, &[flag_or("swin_norm", "swin_norm", false)]],
    restore: None,
    not_held: Some("the norms of queries and keys of all heads but the first"),
    ..PLAIN
};

/// Norms of single heads. llama.cpp takes that of the first head for all.
const HEAD_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.weight", "attn_q_norm.weight", &[HEADS, HEAD_DIM]).with(&[Change::RepeatedFirstHead]),
    layer("self_attn.q_norm.bias", "attn_q_norm.bias", &[HEADS, HEAD_DIM]).with(&[Change::RepeatedFirstHead]),
    layer("self_attn.k_norm.weight", "attn_k_norm.weight", &[KV_HEADS, HEAD_DIM]).with(&[Change::RepeatedFirstHead]),
    layer("self_attn.k_norm.bias", "attn_k_norm.bias", &[KV_HEADS, HEAD_DIM]).with(&[Change::RepeatedFirstHead]),
];
const KV_HEADS: Size = size(kv_heads, "num_key_value_heads", "attention.head_count_kv");

/// Names of vision experts contain `vision_`, so that they are left out like the tower.
pub(super) static COGVLM: Architecture = Architecture {
    name: "cogvlm",
    classes: &[class("CogVLMForCausalLM", "cogvlm")],
    rules: &[EMBED_NORM_HEAD, NORMS, LANGUAGE],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "llama-bpe")], ..LLAMA_LIKE },
    restore: None,
    not_held: Some("the vision experts of its layers"),
    ..LLAMA
};

const LANGUAGE: &[Rule] = &[
    layer("self_attn.language_expert_query_key_value.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]),
    layer("self_attn.language_expert_dense.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("mlp.language_mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("mlp.language_mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]),
    layer("mlp.language_mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];
