//! Rules: the name of a tensor in a checkpoint and in GGUF, its changes between them, and its shape.

use super::change::Change;
use super::config::Config;
use super::names::{self, Captures};
use super::need::{self, Need};
use super::size::Size;
use crate::error::Result;

/// The rule of a tensor. In its names, `{X}` is the number of an expert, `{q|k|v}` one of several words, and `*` at the
/// end `weight` or `bias`; `#` may also be one of the bounds of a clipped layer. Experts and words are stacked to one tensor; the first size of its shape counts them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The name in a checkpoint, after the layer's prefix and number.
    pub hf: &'static str,
    /// The name in GGUF, after `blk.` and the layer's number.
    pub gguf: &'static str,
    pub is_in_layer: bool,
    /// The stack of layers it is in, if a model has several.
    pub stack: Option<Stack>,
    /// The changes from checkpoint to GGUF, in their order.
    pub changes: &'static [Change],
    /// Whether GGUF has no tensor for it.
    pub is_left_out: bool,
    /// Which models have the tensor; with `*`, the weight.
    pub need: Need,
    /// Which models have the bias, with `*`.
    pub bias: Need,
    /// The shape of the weight in GGUF, slowest dimension first; a bias has one value per row. Rules for the same tensor of
    /// GGUF have the same shape.
    pub shape: &'static [Size],
}

/// A stack of layers with prefixes of its own: the encoder or the decoder of T5.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack {
    pub hf: &'static str,
    pub gguf: &'static str,
    /// The number of its layers, if it is not that of the model.
    pub layers: Option<Size>,
}

/// A tensor of every layer.
pub(crate) const fn layer(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    Rule {
        hf,
        gguf,
        is_in_layer: true,
        stack: None,
        changes: &[],
        is_left_out: false,
        need: Need::Always,
        bias: Need::Never,
        shape,
    }
}

/// A tensor outside the layers.
pub(crate) const fn model(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    Rule { is_in_layer: false, ..layer(hf, gguf, shape) }
}

/// The prefix of a layer's tensors in GGUF.
pub(crate) const BLOCKS: &str = "blk.";

impl Rule {
    /// The same with changes.
    pub(crate) const fn with(mut self, changes: &'static [Change]) -> Self {
        self.changes = changes;
        self
    }

    /// The same in a stack of layers.
    pub(crate) const fn of(mut self, stack: Stack) -> Self {
        self.stack = Some(stack);
        self
    }

    /// The number of layers it is in.
    pub(crate) fn layers(&self, config: &Config, layers: u64) -> Result<u64> {
        match (self.is_in_layer, self.stack.and_then(|stack| stack.layers)) {
            (false, _) => Ok(1),
            (true, Some(size)) => (size.of)(config),
            (true, None) => Ok(layers),
        }
    }

    /// The prefix of its layers in a checkpoint.
    fn hf_layers<'p>(&self, layers: &'p str) -> &'p str
    where
        'static: 'p,
    {
        self.stack.map_or(layers, |stack| stack.hf)
    }

    /// Whether it is in the layers that `block_count` counts.
    pub(crate) fn is_in_main_layers(&self) -> bool {
        self.is_in_layer && self.gguf_layers().ends_with(BLOCKS)
    }

    /// The prefix of its layers in GGUF.
    fn gguf_layers(&self) -> &'static str {
        self.stack.map_or(BLOCKS, |stack| stack.gguf)
    }

    /// The same without a tensor in GGUF.
    pub(crate) const fn left_out(mut self) -> Self {
        self.is_left_out = true;
        self
    }

    /// The same for a tensor that only some models have.
    pub(crate) const fn when(mut self, need: Need) -> Self {
        self.need = need;
        self
    }

    /// The same with a bias.
    pub(crate) const fn biased(mut self, need: Need) -> Self {
        self.bias = need;
        self
    }

    /// Whether another rule is for the same tensor of GGUF.
    pub(crate) fn is_same_in_gguf(&self, other: &Self) -> bool {
        let of = |rule: &Self| (rule.is_in_layer, rule.stack.map(|stack| stack.gguf), rule.gguf);
        !other.is_left_out && of(self) == of(other)
    }

    /// Which models have the weight or the bias.
    pub(crate) const fn need_of(&self, ending: &str) -> Need {
        if matches!(ending.as_bytes(), b"bias") { self.bias } else { self.need }
    }

    /// Whether its tensors come together on their own, not with the experts of a layer.
    pub(crate) fn is_own_stack(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Product | Change::Joined(_) | Change::Combined(_)))
    }

    /// Whether tensors of these shapes become one.
    pub(crate) fn is_stackable(&self, shape: &[usize], other: &[usize]) -> bool {
        let is_vector = |size: &&usize| **size != 1;
        match self.changes {
            [Change::Combined(_), ..] => true,
            [Change::Joined(_), ..] => shape.len() == other.len() && shape.get(1..) == other.get(1..),
            // A vector of a product may be the row of a matrix.
            [.., Change::Product] => shape.iter().filter(is_vector).eq(other.iter().filter(is_vector)),
            _ => shape == other,
        }
    }

    /// Whether the tensors of all experts become one.
    pub(crate) fn is_stacked(&self) -> bool {
        self.hf.contains(names::PLACEHOLDER)
    }

    /// The shape of a stack before it is changed, as far as it is known.
    pub(crate) const fn stacked(&self) -> &'static [Size] {
        match self.changes {
            [Change::Shaped(from, _), ..] => from,
            [Change::Joined(count), ..] => count,
            [Change::Combined(combined), ..] => &combined.count,
            _ => self.shape,
        }
    }

    /// The shape of one expert of a stack, if the configuration gives it.
    pub(crate) fn shape_of_expert(&self, config: &Config, layer: Option<u64>) -> Option<Vec<usize>> {
        let sizes = self.stacked().iter().skip(1).map(|size| usize::try_from(size.at(config, layer).ok()?).ok());
        sizes.collect()
    }

    /// The endings of its names, with the models that have the tensor.
    pub(crate) fn endings(&self) -> impl Iterator<Item = (&'static str, Need)> {
        let open = [("weight", self.need), ("bias", self.bias)];
        let closed = [("", self.need)];
        let (is_open, is_clipped) = (self.gguf.ends_with(['*', '#']), self.gguf.ends_with('#'));
        let bounds = names::BOUNDS.into_iter().map(|bound| (bound, need::OPTIONAL)).filter(move |_| is_clipped);
        let open = open.into_iter().filter(move |_| is_open);
        open.chain(bounds).chain(closed.into_iter().filter(move |_| !is_open))
    }

    /// Matches a name of a checkpoint: its layer, and its expert and ending.
    pub(crate) fn of_hf<'a>(&self, layers: &str, name: &'a str) -> Option<(Option<u64>, Captures<'a>)> {
        read(self.hf, self.is_in_layer.then_some(self.hf_layers(layers)), name)
    }

    /// Matches a name of GGUF.
    pub(crate) fn of_gguf<'a>(&self, name: &'a str) -> Option<(Option<u64>, Captures<'a>)> {
        read(self.gguf, self.is_in_layer.then_some(self.gguf_layers()), name)
    }

    /// The name in GGUF.
    pub(crate) fn gguf_name(&self, layer: Option<u64>, captures: Captures<'_>) -> String {
        written(self.gguf, layer.map(|layer| (self.gguf_layers(), layer)), captures)
    }

    /// The name in a checkpoint.
    pub(crate) fn hf_name(&self, layers: &str, layer: Option<u64>, captures: Captures<'_>) -> String {
        written(self.hf, layer.map(|layer| (self.hf_layers(layers), layer)), captures)
    }
}

fn read<'a>(pattern: &str, layers: Option<&str>, name: &'a str) -> Option<(Option<u64>, Captures<'a>)> {
    match layers {
        None => Some((None, names::captures(pattern, name)?)),
        Some(prefix) => {
            let (layer, rest) = names::in_layer(prefix, name)?;
            Some((Some(layer), names::captures(pattern, rest)?))
        }
    }
}

fn written(pattern: &str, layer: Option<(&str, u64)>, captures: Captures<'_>) -> String {
    let name = names::fill(pattern, captures);
    layer.map_or_else(|| name.clone(), |(prefix, layer)| format!("{prefix}{layer}.{name}"))
}
