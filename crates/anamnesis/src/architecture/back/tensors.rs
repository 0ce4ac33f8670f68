//! GGUF to checkpoint: the tensors, by the rules of the architecture with their changes undone.

use std::collections::BTreeMap;

use crate::architecture::change::{self, Change, Reshaped};
use crate::architecture::config::Config;
use crate::architecture::kind::Architecture;
use crate::architecture::map::{Mapped, Named};
use crate::architecture::names::{self, Captures};
use crate::architecture::need::Presence;
use crate::architecture::rule::Rule;
use crate::error::Result;

/// The tensors of GGUF that a tensor of a checkpoint comes from, with their changes.
#[derive(Default)]
struct Origin {
    parts: Vec<(&'static [Change], Reshaped)>,
    /// Its number in a stack of experts.
    expert: Option<u64>,
}

/// The tensors of a checkpoint by name, and notes on those that are left out.
pub(super) fn restored(
    architecture: &'static Architecture,
    config: &Config,
    tensors: &[Named<'_>],
) -> Result<(Vec<Mapped>, Vec<String>)> {
    let layers = config.layers()?;
    let mut origins: BTreeMap<String, Origin> = BTreeMap::new();
    let (mut unknown, mut of_inputs) = (Vec::new(), 0usize);
    for (place, tensor) in tensors.iter().enumerate() {
        if architecture.derived_tensors.iter().any(|made| made.is_named(tensor.name)) {
            continue;
        }
        // Input scales have no meaning for decoded weights.
        if tensor.name.ends_with(".input_scale") && tensor.shape.len() <= 1 {
            of_inputs += 1;
            continue;
        }
        let fits = |rule: &&'static Rule| !rule.is_left_out && rule.of_gguf(tensor.name).is_some();
        let mut found = architecture.rules().filter(fits).filter_map(|rule| Some((rule, rule.of_gguf(tensor.name)?)));
        let Some(first) = found.next() else {
            unknown.push(tensor.name);
            continue;
        };
        // Of several rules, the first counts that the configuration has a tensor for.
        let mut own = None;
        for (rule, (layer, captures)) in std::iter::once(first).chain(found) {
            if rule.need_of(captures.ending).of(config, layer.unwrap_or(0))? != Presence::Surplus {
                own = Some((rule, (layer, captures)));
                break;
            }
        }
        let (rule, (layer, captures)) = own.unwrap_or(first);
        let experts = tensor.shape.first().filter(|_| rule.is_stacked()).map(|&experts| experts as u64);
        let experts = experts.map_or_else(|| vec![None], |experts| (0..experts).map(Some).collect());
        for expert in experts {
            let name = rule.hf_name(architecture.layer_prefix, layer, Captures { expert, ..captures });
            let name = names::unrenamed(&name, architecture.renames, architecture.layer_prefix, layers);
            let origin = origins.entry(name).or_default();
            origin.parts.push((rule.changes, Reshaped::input(place, tensor.shape)));
            origin.expert = expert;
        }
    }
    if !unknown.is_empty() {
        return Err(architecture.unknown(&unknown));
    }
    let mut restored = Vec::with_capacity(origins.len());
    for (name, Origin { parts, expert }) in origins {
        let whole = change::to_checkpoint(parts, config).map_err(|error| error.in_tensor(&name))?;
        let Reshaped { tree, shape } = match expert {
            Some(expert) => change::unstacked(whole, expert),
            None => whole,
        };
        restored.push(Mapped { name, shape, tree });
    }
    let notes = match of_inputs {
        0 => None,
        1 => Some("the scale of a layer's inputs is left out: its weight is decoded".to_owned()),
        many => Some(format!("the scales of {many} layers' inputs are left out: their weights are decoded")),
    };
    Ok((restored, notes.into_iter().collect()))
}
