//! Rules: how a tensor is called in a checkpoint and in GGUF, and what is changed on the way.

use super::change::Change;
use super::names::{self, Caught};

/// One kind of tensors. Patterns leave open what differs: `{X}` is the number of an expert, `*` at the end `weight` or
/// `bias`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Its name in a checkpoint, behind the number of its layer where it is in one.
    pub hf: &'static str,
    /// Its name in GGUF, behind the number of its layer where it is in one.
    pub gguf: &'static str,
    pub is_in_layer: bool,
    pub change: Change,
}

/// A tensor of every layer.
pub(crate) const fn layer(hf: &'static str, gguf: &'static str) -> Rule {
    Rule { hf, gguf, is_in_layer: true, change: Change::Same }
}

/// A tensor of the model.
pub(crate) const fn model(hf: &'static str, gguf: &'static str) -> Rule {
    Rule { hf, gguf, is_in_layer: false, change: Change::Same }
}

/// The layers of GGUF.
pub(crate) const BLOCKS: &str = "blk.";

impl Rule {
    /// The same with a change.
    pub(crate) const fn with(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    /// What a name of a checkpoint has in the open places, with its layer.
    pub(crate) fn of_hf<'a>(&self, layers: &str, name: &'a str) -> Option<(Option<u64>, Caught<'a>)> {
        read(self.hf, self.is_in_layer.then_some(layers), name)
    }

    /// The same of a name of GGUF.
    pub(crate) fn of_gguf<'a>(&self, name: &'a str) -> Option<(Option<u64>, Caught<'a>)> {
        read(self.gguf, self.is_in_layer.then_some(BLOCKS), name)
    }

    /// The name in GGUF of what was caught.
    pub(crate) fn gguf_name(&self, layer: Option<u64>, caught: Caught<'_>) -> String {
        written(self.gguf, layer.map(|layer| (BLOCKS, layer)), caught)
    }

    /// The name in a checkpoint of what was caught.
    pub(crate) fn hf_name(&self, layers: &str, layer: Option<u64>, caught: Caught<'_>) -> String {
        written(self.hf, layer.map(|layer| (layers, layer)), caught)
    }
}

fn read<'a>(pattern: &str, layers: Option<&str>, name: &'a str) -> Option<(Option<u64>, Caught<'a>)> {
    match layers {
        None => Some((None, names::caught(pattern, name)?)),
        Some(prefix) => {
            let (layer, rest) = names::in_layer(prefix, name)?;
            Some((Some(layer), names::caught(pattern, rest)?))
        }
    }
}

fn written(pattern: &str, layer: Option<(&str, u64)>, caught: Caught<'_>) -> String {
    let name = names::filled(pattern, caught);
    layer.map_or_else(|| name.clone(), |(prefix, layer)| format!("{prefix}{layer}.{name}"))
}

/// The tensors around the layers of most decoders.
pub(crate) const AROUND: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*"),
    model("model.norm.*", "output_norm.*"),
    model("lm_head.*", "output.*"),
];

/// Attention with queries, keys and values of their own.
pub(crate) const ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*"),
    layer("self_attn.k_proj.*", "attn_k.*"),
    layer("self_attn.v_proj.*", "attn_v.*"),
    layer("self_attn.o_proj.*", "attn_output.*"),
];

/// The same with queries and keys paired for rotary positions.
pub(crate) const PAIRED_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*").with(Change::Rotary("num_attention_heads")),
    layer("self_attn.k_proj.*", "attn_k.*").with(Change::Rotary("num_key_value_heads")),
    layer("self_attn.v_proj.*", "attn_v.*"),
    layer("self_attn.o_proj.*", "attn_output.*"),
];

/// Norms of queries and keys.
pub(crate) const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*"),
    layer("self_attn.k_norm.*", "attn_k_norm.*"),
    layer("self_attn.q_layernorm.*", "attn_q_norm.*"),
    layer("self_attn.k_layernorm.*", "attn_k_norm.*"),
];

/// A norm before attention and one before the feed-forward network.
pub(crate) const NORMS: &[Rule] =
    &[layer("input_layernorm.*", "attn_norm.*"), layer("post_attention_layernorm.*", "ffn_norm.*")];

/// A feed-forward network with a gate.
pub(crate) const GATED: &[Rule] = &[
    layer("mlp.gate_proj.*", "ffn_gate.*"),
    layer("mlp.up_proj.*", "ffn_up.*"),
    layer("mlp.down_proj.*", "ffn_down.*"),
];

/// Experts, each with its own tensors, or stacked already; the way down comes first in GGUF.
pub(crate) const EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight"),
    layer("mlp.experts.{X}.down_proj.*", "ffn_down_exps.*").with(Change::Stacked),
    layer("mlp.experts.{X}.gate_proj.*", "ffn_gate_exps.*").with(Change::Stacked),
    layer("mlp.experts.{X}.up_proj.*", "ffn_up_exps.*").with(Change::Stacked),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight"),
    layer("mlp.experts.gate_up_proj", "ffn_gate_exps.weight").with(Change::FirstHalf),
    layer("mlp.experts.gate_up_proj", "ffn_up_exps.weight").with(Change::SecondHalf),
];

/// An expert that all tokens go through.
pub(crate) const SHARED_EXPERT: &[Rule] = &[
    layer("mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*"),
    layer("mlp.shared_expert.up_proj.*", "ffn_up_shexp.*"),
    layer("mlp.shared_expert.down_proj.*", "ffn_down_shexp.*"),
    layer("mlp.shared_expert_gate.*", "ffn_gate_inp_shexp.*"),
];

/// The same under the name of several, without a gate.
pub(crate) const SHARED_EXPERTS: &[Rule] = &[
    layer("mlp.shared_experts.gate_proj.*", "ffn_gate_shexp.*"),
    layer("mlp.shared_experts.up_proj.*", "ffn_up_shexp.*"),
    layer("mlp.shared_experts.down_proj.*", "ffn_down_shexp.*"),
];
