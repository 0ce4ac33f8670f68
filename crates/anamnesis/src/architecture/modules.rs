//! The tensors of modules that several architectures share: embeddings, norms, attention, feed-forward networks, experts.

use super::change::{Change, Halves};
use super::config::Config;
use super::key::HIDDEN_KEYS;
use super::need::{ATTENTION_BIAS, DENSE, MLP_BIAS, Need, OPTIONAL_SPARSE, Presence, SHARED, SPARSE, UNTIED};
use super::rule::{Rule, layer, model};
use super::size::{
    EXPERT_COUNT, EXPERT_FFN, FFN, HEAD_DIM, HIDDEN, KV_DIM, ONE, Q_DIM, SHARED_FFN, Size, VOCAB, first, size,
};
use crate::error::Result;

/// Embedding, final norm and head of most decoders.
pub(crate) const EMBED_NORM_HEAD: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

/// Attention with separate query, key and value projections.
pub(crate) const fn attention(qkv_bias: Need, output_bias: Need) -> [Rule; 4] {
    [
        layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).biased(qkv_bias),
        layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).biased(qkv_bias),
        layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).biased(qkv_bias),
        layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(output_bias),
    ]
}

/// Attention with biases by `attention_bias`.
pub(crate) const ATTENTION: &[Rule] = &attention(ATTENTION_BIAS, ATTENTION_BIAS);

/// [`ATTENTION`] without a bias of the output projection.
pub(crate) const QKV_BIASED_ATTENTION: &[Rule] = &attention(ATTENTION_BIAS, Need::Never);

/// [`ATTENTION`] with query and key rows permuted for RoPE.
pub(crate) const PERMUTED_ATTENTION: &[Rule] = {
    let [q, k, v, output] = attention(ATTENTION_BIAS, ATTENTION_BIAS);
    let (q_change, k_change) = (&[Change::Rotary("num_attention_heads")], &[Change::Rotary("num_key_value_heads")]);
    &[q.with(q_change), k.with(k_change), v, output]
};

/// Norms of queries and keys, per head.
pub(crate) const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]),
    layer("self_attn.q_layernorm.*", "attn_q_norm.*", &[HEAD_DIM]),
    layer("self_attn.k_layernorm.*", "attn_k_norm.*", &[HEAD_DIM]),
];

/// A norm before attention and one before the feed-forward network.
pub(crate) const NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
];

/// The gated feed-forward network of layers without experts.
const fn gated_ffn(bias: Need) -> [Rule; 3] {
    [
        layer("mlp.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN]).when(DENSE).biased(bias),
        layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(DENSE).biased(bias),
        layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(DENSE).biased(bias),
    ]
}

/// The gated feed-forward network without biases.
pub(crate) const GATED_FFN: &[Rule] = &gated_ffn(Need::Never);

/// The gated feed-forward network with biases by `mlp_bias`.
pub(crate) const GATED_FFN_BIASED: &[Rule] = &gated_ffn(MLP_BIAS);

/// The shape of stacked `gate_proj` or `up_proj`.
pub(crate) const EXPERTS_UP: &[Size] = &[EXPERT_COUNT, EXPERT_FFN, HIDDEN];
/// The shape of stacked `down_proj`.
pub(crate) const EXPERTS_DOWN: &[Size] = &[EXPERT_COUNT, HIDDEN, EXPERT_FFN];

/// Routed experts, one tensor each or stacked already; `down_proj` comes first in GGUF.
pub(crate) const EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERTS_UP)
        .with(&[Change::First(Halves::Rows)])
        .when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERTS_UP)
        .with(&[Change::Second(Halves::Rows)])
        .when(SPARSE),
];

/// A shared expert, with a gate.
pub(crate) const SHARED_EXPERT: &[Rule] = &[
    layer("mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_expert.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
    layer("mlp.shared_expert_gate.*", "ffn_gate_inp_shexp.*", &[ONE, HIDDEN]).when(SHARED),
];

/// Shared experts as one tensor, without a gate.
pub(crate) const SHARED_EXPERTS: &[Rule] = &[
    layer("mlp.shared_experts.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_experts.up_proj.*", "ffn_up_shexp.*", &[SHARED_FFN, HIDDEN]).when(SHARED),
    layer("mlp.shared_experts.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED_FFN]).when(SHARED),
];

/// [`EMBED_NORM_HEAD`] where the final norm is stored as the difference from 1, and the embedding is always the head.
pub(crate) const EMBED_NORM_TIED: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).left_out(),
];

/// Norms before and after attention and the feed-forward network, stored as the difference from 1.
pub(crate) const FOUR_NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("pre_feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
];

/// The rows of two hidden states.
pub(crate) const TWO_HIDDEN: Size =
    size(|config| Ok(first(config, HIDDEN_KEYS)?.saturating_mul(2)), "hidden_size", "embedding_length");
/// Tensors of the layers for multi-token prediction.
pub(crate) const NEXTN: Need =
    Need::When("num_hidden_layers, num_nextn_predict_layers or nextn_predict_layers", |config, layer| {
        nextn(config, layer, Presence::Needed)
    });
pub(crate) const NEXTN_OPTIONAL: Need =
    Need::When("num_hidden_layers, num_nextn_predict_layers or nextn_predict_layers", |config, layer| {
        nextn(config, layer, Presence::Allowed)
    });

fn nextn(config: &Config, layer: u64, presence: Presence) -> Result<Presence> {
    Ok(if layer < config.layers()? { Presence::Surplus } else { presence })
}

/// The tensors of layers for multi-token prediction.
pub(crate) const NEXTN_TENSORS: &[Rule] = &[
    layer("eh_proj.*", "nextn.eh_proj.*", &[HIDDEN, TWO_HIDDEN]).when(NEXTN),
    layer("embed_tokens.*", "nextn.embed_tokens.*", &[VOCAB, HIDDEN]).when(NEXTN_OPTIONAL),
    layer("enorm.*", "nextn.enorm.*", &[HIDDEN]).when(NEXTN),
    layer("hnorm.*", "nextn.hnorm.*", &[HIDDEN]).when(NEXTN),
    layer("shared_head.head.*", "nextn.shared_head_head.*", &[VOCAB, HIDDEN]).when(NEXTN_OPTIONAL),
    layer("shared_head.norm.*", "nextn.shared_head_norm.*", &[HIDDEN]).when(NEXTN_OPTIONAL),
];

/// The experts of Mixtral: `w1` (gate) comes first in GGUF.
pub(crate) const MIXTURE: &[Rule] = &[
    layer("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w1.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w2.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("block_sparse_moe.experts.{X}.w3.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
];

/// Norms before and after attention, the latter before the feed-forward network.
pub(crate) const POST_ATTENTION_NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
];

/// The router's score correction bias of MoE layers, in models that have one.
pub(crate) const CORRECTION: &[Rule] = &[
    layer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("mlp.gate.e_score_correction.bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
];
