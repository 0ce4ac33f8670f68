//! Rules: how a tensor is called in a checkpoint and in GGUF, and what is changed on the way.

use super::change::{Change, Halves};
use super::config::Config;
use super::names::{self, Caught};
use super::need::{ATTENTION_BIAS, DENSE, MLP_BIAS, Need, SHARED, SPARSE, UNTIED};
use super::size::{
    EXPERT_INNER, EXPERTS as EXPERT_COUNT, HEAD, INNER, KEYS, ONE, QUERIES, SHARED_INNER, Size, VOCABULARY, WIDTH,
};

/// One kind of tensors. Patterns leave open what differs: `{X}` is the number of an expert, `*` at the end `weight` or
/// `bias`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Its name in a checkpoint, behind the number of its layer where it is in one.
    pub hf: &'static str,
    /// Its name in GGUF, behind the number of its layer where it is in one.
    pub gguf: &'static str,
    pub is_in_layer: bool,
    /// The changes from checkpoint to GGUF, in their order.
    pub changes: &'static [Change],
    /// Whether GGUF has no tensor for it.
    pub is_left_out: bool,
    /// Which models have it; of patterns that end in `*`, the weight.
    pub need: Need,
    /// Which models have the bias, of patterns that end in `*`.
    pub bias: Need,
    /// The shape in GGUF, slowest dimension first, of the weight; a bias has one value for every row. Several rules for one
    /// tensor of GGUF agree in all of this.
    pub shape: &'static [Size],
}

/// A tensor of every layer.
pub(crate) const fn layer(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    Rule { hf, gguf, is_in_layer: true, changes: &[], is_left_out: false, need: Need::Always, bias: Need::Never, shape }
}

/// A tensor of the model.
pub(crate) const fn model(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    Rule { is_in_layer: false, ..layer(hf, gguf, shape) }
}

/// The layers of GGUF.
pub(crate) const BLOCKS: &str = "blk.";

impl Rule {
    /// The same with changes.
    pub(crate) const fn with(mut self, changes: &'static [Change]) -> Self {
        self.changes = changes;
        self
    }

    /// The same without a tensor in GGUF.
    pub(crate) const fn left_out(mut self) -> Self {
        self.is_left_out = true;
        self
    }

    /// The same where only some models have the tensor.
    pub(crate) const fn when(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// The same with a bias.
    pub(crate) const fn biased(mut self, need: Need) -> Self {
        self.bias = need;
        self
    }

    /// Whether the tensors of all experts become one.
    pub(crate) fn is_stacked(&self) -> bool {
        self.hf.contains(names::EXPERT)
    }

    /// The shape of each of the tensors that are stacked, where the configuration tells it.
    pub(crate) fn shape_of_expert(&self, config: &Config) -> Option<Vec<usize>> {
        let sizes = self.shape.iter().skip(1).map(|size| usize::try_from((size.of)(config).ok()?).ok());
        sizes.collect()
    }

    /// The ends that its names may have, with who has such a tensor.
    pub(crate) fn endings(&self) -> impl Iterator<Item = (&'static str, Need)> {
        let open = [("weight", self.need), ("bias", self.bias)];
        let closed = [("", self.need)];
        let is_open = self.gguf.ends_with('*');
        open.into_iter().filter(move |_| is_open).chain(closed.into_iter().filter(move |_| !is_open))
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
    model("model.embed_tokens.*", "token_embd.*", &[VOCABULARY, WIDTH]),
    model("model.norm.*", "output_norm.*", &[WIDTH]),
    model("lm_head.*", "output.*", &[VOCABULARY, WIDTH]).when(UNTIED),
];

/// Attention with queries, keys and values of their own.
pub(crate) const ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]).biased(ATTENTION_BIAS),
];

/// The same with queries and keys paired for rotary positions.
pub(crate) const PAIRED_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH])
        .with(&[Change::Rotary("num_attention_heads")])
        .biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH])
        .with(&[Change::Rotary("num_key_value_heads")])
        .biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]).biased(ATTENTION_BIAS),
];

/// The same as [`ATTENTION`] with biases of queries, keys and values alone.
pub(crate) const HALF_BIASED_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS, WIDTH]).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[WIDTH, QUERIES]),
];

/// Norms of the queries and keys of every head.
pub(crate) const QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD]),
    layer("self_attn.q_layernorm.*", "attn_q_norm.*", &[HEAD]),
    layer("self_attn.k_layernorm.*", "attn_k_norm.*", &[HEAD]),
];

/// A norm before attention and one before the feed-forward network.
pub(crate) const NORMS: &[Rule] =
    &[layer("input_layernorm.*", "attn_norm.*", &[WIDTH]), layer("post_attention_layernorm.*", "ffn_norm.*", &[WIDTH])];

/// A feed-forward network with a gate, in layers without experts.
pub(crate) const GATED: &[Rule] = &[
    layer("mlp.gate_proj.*", "ffn_gate.*", &[INNER, WIDTH]).when(DENSE),
    layer("mlp.up_proj.*", "ffn_up.*", &[INNER, WIDTH]).when(DENSE),
    layer("mlp.down_proj.*", "ffn_down.*", &[WIDTH, INNER]).when(DENSE),
];

/// The same with biases.
pub(crate) const BIASED_GATED: &[Rule] = &[
    layer("mlp.gate_proj.*", "ffn_gate.*", &[INNER, WIDTH]).when(DENSE).biased(MLP_BIAS),
    layer("mlp.up_proj.*", "ffn_up.*", &[INNER, WIDTH]).when(DENSE).biased(MLP_BIAS),
    layer("mlp.down_proj.*", "ffn_down.*", &[WIDTH, INNER]).when(DENSE).biased(MLP_BIAS),
];

/// The shape of the rows of all gates, or of all that they gate.
pub(crate) const EXPERTS_IN: &[Size] = &[EXPERT_COUNT, EXPERT_INNER, WIDTH];
/// The shape of what leads back to the width of the model.
pub(crate) const EXPERTS_OUT: &[Size] = &[EXPERT_COUNT, WIDTH, EXPERT_INNER];

/// Experts, each with its own tensors, or stacked already; the way down comes first in GGUF.
pub(crate) const EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, WIDTH]).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_OUT).when(SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_IN).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_IN).when(SPARSE),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight", EXPERTS_OUT).when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERTS_IN)
        .with(&[Change::First(Halves::Rows)])
        .when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERTS_IN)
        .with(&[Change::Second(Halves::Rows)])
        .when(SPARSE),
];

/// An expert that all tokens go through.
pub(crate) const SHARED_EXPERT: &[Rule] = &[
    layer("mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_INNER, WIDTH]).when(SHARED),
    layer("mlp.shared_expert.up_proj.*", "ffn_up_shexp.*", &[SHARED_INNER, WIDTH]).when(SHARED),
    layer("mlp.shared_expert.down_proj.*", "ffn_down_shexp.*", &[WIDTH, SHARED_INNER]).when(SHARED),
    layer("mlp.shared_expert_gate.*", "ffn_gate_inp_shexp.*", &[ONE, WIDTH]).when(SHARED),
];

/// The same under the name of several, without a gate.
pub(crate) const SHARED_EXPERTS: &[Rule] = &[
    layer("mlp.shared_experts.gate_proj.*", "ffn_gate_shexp.*", &[SHARED_INNER, WIDTH]).when(SHARED),
    layer("mlp.shared_experts.up_proj.*", "ffn_up_shexp.*", &[SHARED_INNER, WIDTH]).when(SHARED),
    layer("mlp.shared_experts.down_proj.*", "ffn_down_shexp.*", &[WIDTH, SHARED_INNER]).when(SHARED),
];
