//! Rules: the name of a tensor in a checkpoint and in GGUF, its changes between them, and its shape.

use super::change::Change;
use super::config::Config;
use super::names::{self, Captures};
use super::need::Need;
use super::size::Size;

/// The rule of a tensor. In its names, `{X}` is the number of an expert and `*` at the end `weight` or `bias`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The name in a checkpoint, after the layer's prefix and number.
    pub hf: &'static str,
    /// The name in GGUF, after `blk.` and the layer's number.
    pub gguf: &'static str,
    pub is_in_layer: bool,
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

/// A tensor of every layer.
pub(crate) const fn layer(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    Rule { hf, gguf, is_in_layer: true, changes: &[], is_left_out: false, need: Need::Always, bias: Need::Never, shape }
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

    /// Whether the tensors of all experts become one.
    pub(crate) fn is_stacked(&self) -> bool {
        self.hf.contains(names::EXPERT)
    }

    /// The shape of one expert of a stack, if the configuration gives it.
    pub(crate) fn shape_of_expert(&self, config: &Config) -> Option<Vec<usize>> {
        let sizes = self.shape.iter().skip(1).map(|size| usize::try_from((size.of)(config).ok()?).ok());
        sizes.collect()
    }

    /// The endings of its names, with the models that have the tensor.
    pub(crate) fn endings(&self) -> impl Iterator<Item = (&'static str, Need)> {
        let open = [("weight", self.need), ("bias", self.bias)];
        let closed = [("", self.need)];
        let is_open = self.gguf.ends_with('*');
        open.into_iter().filter(move |_| is_open).chain(closed.into_iter().filter(move |_| !is_open))
    }

    /// Matches a name of a checkpoint: its layer, and its expert and ending.
    pub(crate) fn of_hf<'a>(&self, layers: &str, name: &'a str) -> Option<(Option<u64>, Captures<'a>)> {
        read(self.hf, self.is_in_layer.then_some(layers), name)
    }

    /// Matches a name of GGUF.
    pub(crate) fn of_gguf<'a>(&self, name: &'a str) -> Option<(Option<u64>, Captures<'a>)> {
        read(self.gguf, self.is_in_layer.then_some(BLOCKS), name)
    }

    /// The name in GGUF.
    pub(crate) fn gguf_name(&self, layer: Option<u64>, captures: Captures<'_>) -> String {
        written(self.gguf, layer.map(|layer| (BLOCKS, layer)), captures)
    }

    /// The name in a checkpoint.
    pub(crate) fn hf_name(&self, layers: &str, layer: Option<u64>, captures: Captures<'_>) -> String {
        written(self.hf, layer.map(|layer| (layers, layer)), captures)
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
