//! Rules: how a tensor is called in a checkpoint and in GGUF, and what is changed on the way.

use super::change::Change;
use super::config::Config;
use super::names::{self, Caught};
use super::need::Need;
use super::size::Size;

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
