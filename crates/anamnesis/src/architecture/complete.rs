//! Checks the tensors of a model against its configuration: none missing, none surplus, each of the shape that the
//! hyperparameters give.

use std::collections::{BTreeSet, HashMap};

use super::config::Config;
use super::key::LAYER_KEYS;
use super::kind::Architecture;
use super::names::{self, Captures};
use super::need::{self, Need, Presence};
use super::rule::{BLOCKS, Rule};
use super::size::{self, ANY_SIZE};
use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, Result, quoted};

/// The format of the source, whose names and keys messages use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Checkpoint,
    Gguf,
}

/// A tensor of the source.
pub(super) struct Found<'a> {
    /// Its name in the source.
    pub name: &'a str,
    /// Its shape in GGUF.
    pub shape: &'a [usize],
}

/// The tensors of a model, by their names in GGUF.
pub(super) struct Tensors<'a> {
    pub side: Side,
    pub found: HashMap<&'a str, Found<'a>>,
    /// Whether these are all tensors of the model; otherwise a missing one is no error.
    pub is_whole: bool,
}

/// The tensors that a draft model of the layers for multi-token prediction shares with the other layers.
const SHARED_WITH_DRAFT: [&str; 3] = ["token_embd.weight", "output_norm.weight", "output.weight"];

/// Whether a draft model has a tensor of GGUF; `own` is the number of layers before those for multi-token prediction.
pub(super) fn is_of_draft(own: u64, layer: Option<u64>, gguf: &str) -> bool {
    match layer {
        Some(layer) => layer >= own,
        None => SHARED_WITH_DRAFT.contains(&gguf),
    }
}

impl Architecture {
    /// The number of layers, without and with those for multi-token prediction.
    pub(super) fn layer_counts(&self, config: &Config) -> Result<(u64, u64)> {
        if self.is_projector {
            // The stacks of its rules count their layers themselves.
            return Ok((0, 0));
        }
        let own = size::first(config, LAYER_KEYS)?;
        Ok((own, own.saturating_add(config.nextn_layers)))
    }

    /// Refuses a model whose tensors do not match its configuration.
    pub(super) fn check_complete(&self, tensors: &Tensors<'_>, config: &Config) -> Result<()> {
        let (own, mut layers) = self.layer_counts(config)?;
        tensors.check_sizes()?;
        // Layers for multi-token prediction that are counted, but not stored, are left out.
        if self.nextn_layers.are_optional() && own < layers && tensors.layers() == own {
            layers = own;
        }
        if self.rules().any(Rule::is_in_main_layers) {
            tensors.check_layers(self.name, &self.layer_keys(config), layers)?;
        }
        let mut seen = BTreeSet::new();
        for rule in self.rules().filter(|rule| {
            !rule.is_left_out && seen.insert((rule.is_in_layer, rule.stack.map(|stack| stack.gguf), rule.gguf))
        }) {
            let check = Check { of: self, rule, tensors, config };
            let alternatives: Vec<&Rule> = self.rules().filter(|other| rule.is_same_in_gguf(other)).collect();
            for (ending, need) in rule.endings() {
                let others = alternatives.iter().flat_map(|other| other.endings()).filter(|other| other.0 == ending);
                let needs: Vec<Need> = std::iter::once(need).chain(others.map(|other| other.1)).collect();
                check.all(ending, &needs, (own, layers))?;
            }
        }
        Ok(())
    }
}

impl Tensors<'_> {
    /// Refuses tensors without values.
    pub(super) fn check_sizes(&self) -> Result<()> {
        match self.found.values().filter(|found| elements(found.shape).unwrap_or(0) == 0).map(|found| found.name).min()
        {
            Some(name) => Err(AnamnesisError::parse("it has no values").in_tensor(name)),
            None => Ok(()),
        }
    }

    /// The number of layers that tensors are of.
    pub(super) fn layers(&self) -> u64 {
        let bare = |name: &&'_ str| name.strip_prefix("enc.").unwrap_or(name).to_owned();
        let of_name = |name: String| names::in_layer(BLOCKS, &name).map(|(layer, _)| layer.saturating_add(1));
        self.found.keys().map(bare).filter_map(of_name).max().unwrap_or(0)
    }

    /// Refuses a layer count that differs from the tensors; `keys` of the configuration have it.
    pub(super) fn check_layers(&self, architecture: &str, keys: &str, layers: u64) -> Result<()> {
        let stored = self.layers();
        if stored == layers || stored < layers && !self.is_whole {
            return Ok(());
        }
        let keys = match self.side {
            Side::Checkpoint => keys.to_owned(),
            Side::Gguf => quoted(&format!("{architecture}.block_count")),
        };
        Err(AnamnesisError::parse(format!("there are tensors of {stored} layers, {layers} are needed by {keys}")))
    }
}

/// The tensors of one rule.
struct Check<'a> {
    of: &'a Architecture,
    rule: &'static Rule,
    tensors: &'a Tensors<'a>,
    config: &'a Config,
}

impl Check<'_> {
    /// Checks one tensor in all layers. Its needs are those of the rules for it, the first that of this rule.
    fn all(&self, ending: &str, needs: &[Need], (own, layers): (u64, u64)) -> Result<()> {
        let need = needs.first().copied().unwrap_or(Need::Never);
        let mut shape = None;
        let (mut allowed, mut left_out) = (None, None);
        for number in 0..self.rule.layers(self.config, layers)? {
            let layer = self.rule.is_in_layer.then_some(number);
            let captures = Captures { expert: None, ending };
            let name = self.rule.gguf_name(layer, captures);
            if self.config.is_only_mtp && !is_of_draft(own, layer, &name) {
                continue;
            }
            let found = self.tensors.found.get(name.as_str());
            match (need::of_any(needs, self.config, number)?, found) {
                (Presence::Needed, None) if self.tensors.is_whole => return Err(self.missing(layer, ending, need)),
                (Presence::Surplus, Some(found)) => {
                    let keys = need.keys().map_or_else(String::new, |keys| format!(" ({keys})"));
                    let why = format!("it is one too many: the configuration says that there is none{keys}");
                    return Err(AnamnesisError::parse(why).in_tensor(found.name));
                }
                (Presence::Loose, _) => {}
                (Presence::Allowed, Some(_)) => allowed = Some(()),
                (Presence::Allowed, None) => left_out = left_out.or(Some(layer)),
                _ => {}
            }
            let Some(found) = found else { continue };
            let is_of_layer = self.rule.shape.iter().any(|size| size.in_layer.is_some());
            let wanted = match &shape {
                Some(wanted) if !is_of_layer => wanted,
                _ => shape.insert(self.shape(ending, layer).map_err(|error| self.unsized_by(error, found.name))?),
            };
            let is_right = |wanted: &Vec<u64>| {
                let fits = |(&wanted, &found): (&u64, &usize)| wanted == found as u64 || wanted == ANY_SIZE;
                wanted.len() == found.shape.len() && wanted.iter().zip(found.shape).all(fits)
            };
            if let Some(wanted) = wanted.as_ref().filter(|wanted| !is_right(wanted)) {
                return Err(self.misshapen(found, wanted));
            }
        }
        match (allowed, left_out) {
            (Some(()), Some(layer)) if self.tensors.is_whole => Err(self.missing(layer, ending, need)),
            _ => Ok(()),
        }
    }

    /// The shape by the configuration, if the rule has one.
    fn shape(&self, ending: &str, layer: Option<u64>) -> Result<Option<Vec<u64>>> {
        if self.rule.shape.is_empty() {
            return Ok(None);
        }
        let mut shape = self.rule.shape.iter().map(|size| size.at(self.config, layer)).collect::<Result<Vec<_>>>()?;
        if names::BOUNDS.contains(&ending) {
            return Ok(Some(vec![1]));
        }
        // A bias has one value per row.
        if ending == "bias" && shape.len() > 1 {
            shape.pop();
        }
        Ok(Some(shape))
    }

    /// Adds the GGUF keys that a missing size would come from.
    fn unsized_by(&self, error: AnamnesisError, name: &str) -> AnamnesisError {
        let keys: Vec<&str> = self.rule.shape.iter().map(|size| size.gguf).filter(|keys| !keys.is_empty()).collect();
        match self.tensors.side {
            Side::Checkpoint => error.in_tensor(name),
            Side::Gguf => error.within(format_args!("{}", keys.join(", "))).in_tensor(name),
        }
    }

    fn missing(&self, layer: Option<u64>, ending: &str, need: Need) -> AnamnesisError {
        let captures = Captures { expert: Some(0), ending };
        let name = match self.tensors.side {
            Side::Checkpoint => self.of.stored_name(&self.rule.hf_name(self.of.layer_prefix, layer, captures)),
            Side::Gguf => self.rule.gguf_name(layer, captures),
        };
        let counted = || match self.rule.stack.and_then(|stack| stack.layers) {
            Some(size) => size.hf,
            None => self.config.key_of(LAYER_KEYS),
        };
        let of_layers = || layer.map_or_else(String::new, |_| format!(" ({})", counted()));
        let keys = need.keys().map_or_else(of_layers, |keys| format!(" ({keys})"));
        let why =
            format!("it is missing: a model of architecture {} with this configuration{keys} has it", self.of.name);
        AnamnesisError::parse(why).in_tensor(&name)
    }

    fn misshapen(&self, found: &Found<'_>, wanted: &[u64]) -> AnamnesisError {
        let is_wrong = |place: usize| found.shape.get(place).is_none_or(|&size| size as u64 != wanted[place]);
        let sizes = (0..wanted.len()).filter(|&place| is_wrong(place)).map(|place| self.rule.shape[place]);
        let keys = sizes.map(|size| match self.tensors.side {
            Side::Checkpoint => self.config.own_names(size.hf),
            Side::Gguf => size.gguf.to_owned(),
        });
        let keys: Vec<String> = keys.filter(|keys| !keys.is_empty()).collect();
        let keys = if keys.is_empty() { "the architecture".to_owned() } else { keys.join(", ") };
        let what = if self.tensors.side == Side::Checkpoint { "its shape in GGUF would be" } else { "its shape is" };
        let why = format!("{what} {:?}, but {wanted:?} by {keys}", found.shape);
        AnamnesisError::parse(why).in_tensor(found.name)
    }
}
