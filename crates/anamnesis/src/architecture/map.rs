//! Checkpoint to GGUF: the tensors of the output, in the converter's order, each with the steps that compute it.

use std::collections::{BTreeMap, HashMap};

use super::change::{self, Change, Reshaped};
use super::complete::{Found, Side, Tensors, is_of_draft};
use super::config::Config;
use super::key::LAYER_KEYS;
use super::kind::{Architecture, Head};
use super::names::{self, Captures};
use super::need::Presence;
use super::rule::Rule;
use super::tree::Tree;
use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// A tensor of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    pub name: &'a str,
    pub shape: &'a [usize],
}

/// A tensor of GGUF.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mapped {
    pub name: String,
    pub shape: Vec<usize>,
    pub tree: Tree,
}

/// All tensors of GGUF, in their order.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub tensors: Vec<Mapped>,
    /// Tensors of the checkpoint that GGUF does not have.
    pub left_out: Vec<String>,
}

/// The embedding in GGUF.
pub(super) const EMBEDDING: &str = "token_embd.weight";

/// The number of the layer, in the name of a derived tensor.
const LAYER: &str = "{N}";

/// The tensor that derived tensors of a layer come before.
const BEHIND_DERIVED: &str = "blk.{N}.attn_q.weight";

/// The most rows that are added to an embedding.
const MOST_PADDING: u64 = 1 << 16;

/// Tensors named in a refusal; the rest are counted.
const NAMED_IN_REFUSAL: usize = 3;

/// A tensor of GGUF with its sort key: the index of its source tensor and of its rule.
type Placed = ((usize, usize), Mapped);

/// The experts of a stack.
struct Stack {
    rule: usize,
    layer: Option<u64>,
    name: String,
    /// Indices of the tensors, by expert.
    experts: BTreeMap<u64, usize>,
}

impl Architecture {
    /// Maps the tensors of a checkpoint, sorted by file and name. If they are the whole model (`is_whole`), they must be
    /// exactly those that the configuration implies.
    pub(crate) fn map(&'static self, tensors: &[Named<'_>], config: &Config, is_whole: bool) -> Result<Mapping> {
        let (own_layers, layers) = self.layer_counts(config)?;
        let mut mapper = Mapper {
            of: self,
            tensors,
            config,
            placed: Vec::new(),
            stacks: Vec::new(),
            left_out: Vec::new(),
            last: HashMap::new(),
            own_layers,
        };
        let mut unknown = Vec::new();
        for (place, tensor) in tensors.iter().enumerate() {
            let Some(name) = self.local_name(tensor.name, Some(own_layers)) else {
                mapper.left_out.push(tensor.name.to_owned());
                continue;
            };
            let name = self.renumbered(name, config).map_err(|error| error.in_tensor(tensor.name))?;
            let is_known = mapper.tensor(place, &name, layers).map_err(|error| error.in_tensor(tensor.name))?;
            if !is_known {
                unknown.push(tensor.name);
            }
        }
        if !unknown.is_empty() {
            return Err(self.unknown(&unknown));
        }
        mapper.stack()?;
        mapper.check_complete(is_whole)?;
        mapper.finish()
    }

    /// A name with the number that the configuration gives.
    fn renumbered(&self, name: String, config: &Config) -> Result<String> {
        for (prefix, number) in self.numbered {
            let Some((place, rest)) = names::in_layer(prefix, &name) else { continue };
            return Ok(format!("{prefix}{}.{rest}", number(config, place)?));
        }
        Ok(name)
    }

    /// Whether rows of the embedding that have no token are left out.
    pub(crate) fn cuts_to_vocabulary(&self) -> bool {
        self.rules().any(|rule| rule.changes.contains(&Change::CutToVocabulary))
    }

    /// Whether rows are added to an embedding that has fewer than the vocabulary has tokens.
    fn pads_to_vocabulary(&self) -> bool {
        self.rules().any(|rule| rule.changes.contains(&Change::PaddedToVocabulary))
    }

    /// Refuses a `vocab_size` that is not the number of rows of the embedding.
    pub(crate) fn check_vocabulary(&'static self, tensors: &[Named<'_>], config: &Config) -> Result<()> {
        let is_combined = |rule: &Rule| rule.gguf == EMBEDDING && matches!(rule.changes, [Change::Combined(_), ..]);
        if self.rules().any(is_combined) {
            // Its rows are those of several tensors, whose shapes the configuration gives.
            return self.map(tensors, config, true).map(drop);
        }
        let Some(tokens) = config.count(&["vocab_size"])? else { return Ok(()) };
        let is_embedding = |name: &str| {
            let bare = self.local_name(name, None).unwrap_or_default();
            let names = |rule: &Rule| {
                let (layer, captures) = rule.of_hf(self.layer_prefix, &bare)?;
                Some(rule.gguf_name(layer, captures))
            };
            self.rules().filter_map(names).any(|name| name == EMBEDDING)
        };
        let embedding = tensors.iter().find(|tensor| is_embedding(tensor.name));
        let rows = embedding.and_then(|tensor| tensor.shape.first()).map_or(0, |&rows| rows as u64);
        let Some(rule) = self.rules().find(|rule| names::captures(rule.gguf, EMBEDDING).is_some()) else {
            // The embedding is that of another model.
            return Ok(());
        };
        let padded = rule.shape.first().map(|size| (size.of)(config));
        let fits = tokens == rows
            || matches!(padded, Some(Ok(padded)) if padded == rows)
            || tokens < rows && tokens > 0 && self.cuts_to_vocabulary()
            || tokens > rows && tokens - rows <= MOST_PADDING && self.pads_to_vocabulary();
        if fits && embedding.is_some_and(|tensor| elements(tensor.shape).unwrap_or(0) > 0) {
            return Ok(());
        }
        if embedding.is_none() && rule.need.of(config, 0)? == Presence::Allowed {
            return Ok(());
        }
        padded.transpose()?;
        Err(match embedding {
            None => {
                let ending = Captures { expert: None, ending: "weight" };
                let name = rule.hf_name(self.layer_prefix, None, ending);
                AnamnesisError::parse("it is missing: every model has an embedding of its vocabulary").in_tensor(&name)
            }
            Some(tensor) => {
                let why = format!("config.json: {} is {tokens}, it has {rows} rows", quoted("vocab_size"));
                AnamnesisError::parse(why).in_tensor(tensor.name)
            }
        })
    }

    pub(super) fn unknown(&self, names: &[&str]) -> AnamnesisError {
        let mut text = names.iter().take(NAMED_IN_REFUSAL).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if names.len() > NAMED_IN_REFUSAL {
            text += &format!(" and {} more", names.len() - NAMED_IN_REFUSAL);
        }
        AnamnesisError::unsupported_model(ModelPart::Architecture, self.name, format!("it has no place for {text}"))
    }
}

/// The prefix of tensors for multi-token prediction that belong to no layer.
const PREDICTION_PREFIX: &str = "mtp";
/// The tensor that only layers for multi-token prediction have.
const PREDICTION: &str = "eh_proj.weight";

struct Mapper<'a> {
    of: &'static Architecture,
    tensors: &'a [Named<'a>],
    config: &'a Config,
    placed: Vec<Placed>,
    stacks: Vec<Stack>,
    left_out: Vec<String>,
    /// The last expert of every layer.
    last: HashMap<Option<u64>, usize>,
    /// The number of layers without those for multi-token prediction.
    own_layers: u64,
}

impl Mapper<'_> {
    /// Maps one tensor; false if no rule matches.
    fn tensor(&mut self, place: usize, name: &str, layers: u64) -> Result<bool> {
        let of = self.of;
        if self.config.is_without_mtp {
            let is_further = names::in_layer(of.layer_prefix, name).is_some_and(|(layer, _)| layer >= layers);
            let is_outside = name.starts_with(PREDICTION_PREFIX) && !of.layer_prefix.starts_with(PREDICTION_PREFIX);
            if is_further || is_outside {
                self.left_out.push(name.to_owned());
                return Ok(true);
            }
        }
        let fits = |(index, rule): (usize, &'static Rule)| {
            let (layer, captures) = rule.of_hf(of.layer_prefix, name)?;
            Some((index, rule, layer, captures))
        };
        let mut found: Vec<_> = of.rules().enumerate().filter_map(fits).collect();
        // Of several rules, those count that the configuration has a tensor for.
        if found.len() > 1 {
            let mut needed = Vec::new();
            for &(index, rule, layer, captures) in &found {
                if rule.need_of(captures.ending).of(self.config, layer.unwrap_or(0))? != Presence::Surplus {
                    needed.push((index, rule, layer, captures));
                }
            }
            if !needed.is_empty() {
                found = needed;
            }
        }
        for &(index, rule, layer, captures) in &found {
            let layers = rule.layers(self.config, layers)?;
            if let Some(layer) = layer.filter(|layer| *layer >= layers) {
                if !self.is_prediction(layer) {
                    let key = match rule.stack.and_then(|stack| stack.layers) {
                        Some(size) => quoted(size.hf),
                        None => of.layer_keys(self.config),
                    };
                    let why = format!("it is of layer {layer}, config.json says there are {layers} ({key})");
                    return Err(AnamnesisError::parse(why));
                }
                self.left_out.push(name.to_owned());
                return Ok(true);
            }
            let gguf = rule.gguf_name(layer, captures);
            let is_of_main_model = self.config.is_only_mtp && !is_of_draft(self.own_layers, layer, &gguf);
            if rule.is_left_out || is_of_main_model || gguf == "output.weight" && !self.has_head()? {
                self.left_out.push(name.to_owned());
                return Ok(true);
            }
            self.place(place, (index, rule), (layer, captures), gguf)?;
        }
        let further = names::in_layer(of.layer_prefix, name).map(|(layer, _)| layer).filter(|layer| *layer >= layers);
        if found.is_empty() && further.is_some_and(|layer| self.is_prediction(layer)) {
            self.left_out.push(name.to_owned());
            return Ok(true);
        }
        Ok(!found.is_empty())
    }

    /// Whether a layer after the last is one for multi-token prediction, which llama.cpp drops: only these project the
    /// embedding together with the hidden state.
    fn is_prediction(&self, layer: u64) -> bool {
        let projection = format!("{}{layer}.{PREDICTION}", self.of.layer_prefix);
        self.of.drops_nextn_layers && self.tensors.iter().any(|tensor| tensor.name == projection)
    }

    fn has_head(&self) -> Result<bool> {
        Ok(match self.of.head {
            Head::IfStored | Head::Always => true,
            Head::Never => false,
            Head::UnlessEqual(embedding, head) => {
                let digest = |name| self.config.measured.get(None, name);
                digest(head).is_none() || digest(head) != digest(embedding)
            }
            Head::UnlessTied => !self.config.flag("tie_word_embeddings")?.unwrap_or(false),
        })
    }

    fn place(
        &mut self,
        place: usize,
        (index, rule): (usize, &Rule),
        (layer, captures): (Option<u64>, Captures<'_>),
        name: String,
    ) -> Result<()> {
        let Some(expert) = captures.expert else {
            let tensor = Reshaped::input(place, self.tensors[place].shape);
            let Reshaped { tree, shape } = change::to_gguf(rule.changes, tensor, self.config, layer)?;
            self.placed.push(((place, index), Mapped { name, shape, tree }));
            return Ok(());
        };
        if !rule.is_own_stack() {
            self.last.insert(layer, place);
        }
        let stack = match self.stacks.iter_mut().rev().find(|stack| stack.name == name) {
            Some(stack) => stack,
            None => {
                self.stacks.push(Stack { rule: index, layer, name, experts: BTreeMap::new() });
                let last = self.stacks.len() - 1;
                &mut self.stacks[last]
            }
        };
        if stack.experts.insert(expert, place).is_some() {
            return Err(AnamnesisError::parse(format!("there are two experts {expert} of {}", quoted(&stack.name))));
        }
        Ok(())
    }

    /// Stacks the experts of every layer.
    fn stack(&mut self) -> Result<()> {
        for Stack { rule, layer, name, experts } in std::mem::take(&mut self.stacks) {
            let size = self.of.rules().nth(rule).and_then(|rule| rule.stacked().first());
            let counted = size.map(|size| size.at(self.config, layer)).transpose();
            let count = counted.ok().flatten().unwrap_or(experts.len() as u64);
            let layers = self.of.rules().nth(rule).and_then(|rule| rule.need.keys());
            let mut keys: Vec<&str> = size.map(|size| size.hf).into_iter().chain(layers).collect();
            keys.dedup();
            let keys = keys.join("; ");
            if let Some(missing) = (0..count).find(|expert| !experts.contains_key(expert)) {
                let captures = Captures { expert: Some(missing), ending: "weight" };
                let missed = self.of.rules().nth(rule).map(|rule| rule.hf_name(self.of.layer_prefix, layer, captures));
                let missed = missed.map(|name| self.of.stored_name(&name));
                let why = format!("it is missing: {} has no expert {missing} of {count} ({keys})", quoted(&name));
                return Err(AnamnesisError::parse(why).in_tensor(missed.as_deref().unwrap_or(&name)));
            }
            if let Some(expert) = experts.keys().find(|expert| **expert >= count) {
                return Err(AnamnesisError::parse(format!(
                    "{} has an expert {expert}, there are {count} ({keys})",
                    quoted(&name)
                )));
            }
            // An expert of the configured shape, or the first.
            let wanted = self.of.rules().nth(rule).and_then(|rule| rule.shape_of_expert(self.config, layer));
            let is_wanted = |place: &&usize| wanted.as_deref() == Some(self.tensors[**place].shape);
            let of_first = experts.values().find(is_wanted).or(experts.values().next());
            let of_first = of_first.map_or(&[][..], |&place| self.tensors[place].shape);
            let of_rule = self.of.rules().nth(rule);
            let is_same = |shape| of_rule.is_none_or(|rule| rule.is_stackable(shape, of_first));
            if let Some(&place) = experts.values().find(|&&place| !is_same(self.tensors[place].shape)) {
                let found = &self.tensors[place];
                let why = format!("its shape is {:?}, that of other experts {of_first:?}", found.shape);
                return Err(AnamnesisError::parse(why).in_tensor(found.name));
            }
            let changes = of_rule.map_or(&[][..], |rule| rule.changes);
            let trees = experts.values().map(|&place| Tree::Tensor(place)).collect();
            let stack = match changes {
                [Change::Joined(_), ..] => {
                    let shapes: Vec<_> = experts.values().map(|&place| self.tensors[place].shape).collect();
                    change::joined(trees, &shapes)
                }
                [Change::Combined(combined), ..] => {
                    let input = |place: &usize| Reshaped::input(*place, self.tensors[*place].shape);
                    (combined.of)(&experts.values().map(input).collect::<Vec<_>>(), self.config)?
                }
                _ => change::stacked(trees, of_first),
            };
            let Reshaped { tree, shape } = change::to_gguf(changes, stack, self.config, layer)?;
            // All experts of a layer come after the last of them.
            let own = experts.values().max().copied().filter(|_| of_rule.is_some_and(Rule::is_own_stack));
            let place = own.or(self.last.get(&layer).copied()).unwrap_or(0);
            self.placed.push(((place, rule), Mapped { name, shape, tree }));
        }
        Ok(())
    }

    /// Refuses a model whose tensors do not match its configuration.
    fn check_complete(&self, is_whole: bool) -> Result<()> {
        let source = |mapped: &Mapped| mapped.tree.tensors().first().map_or("", |&place| self.tensors[place].name);
        let mut by_name = HashMap::new();
        for (_, mapped) in &self.placed {
            by_name.insert(mapped.name.as_str(), Found { name: source(mapped), shape: &mapped.shape });
        }
        let tensors = Tensors { side: Side::Checkpoint, found: by_name, is_whole };
        self.of.check_complete(&tensors, self.config)
    }

    fn finish(self) -> Result<Mapping> {
        let Self { of, config, mut placed, left_out, tensors, .. } = self;
        placed.sort_by_key(|(place, _)| *place);
        let mut made = Vec::new();
        for tensor in of.derived_tensors {
            if let Some(values) = (tensor.values)(config)? {
                if values.iter().any(|value| !value.is_finite()) {
                    let why = format!(
                        "config.json: the scaling of positions gives {} values that are no numbers",
                        tensor.name
                    );
                    return Err(AnamnesisError::parse(why));
                }
                let shape = match tensor.row.map(|row| (row.of)(config)).transpose()? {
                    Some(row @ 1..) => vec![values.len() / row as usize, row as usize],
                    _ => vec![values.len()],
                };
                if !tensor.name.contains(LAYER) {
                    made.push(Mapped { name: tensor.name.to_owned(), shape, tree: Tree::Constant(values) });
                    continue;
                }
                for layer in 0..config.all_layers()? {
                    let name = tensor.name.replace(LAYER, &layer.to_string());
                    let mapped = Mapped { name, shape: shape.clone(), tree: Tree::Constant(values.clone()) };
                    let next = BEHIND_DERIVED.replace(LAYER, &layer.to_string());
                    let place = placed.iter().position(|(_, mapped)| mapped.name == next).unwrap_or(placed.len());
                    let key = placed.get(place).map_or((usize::MAX, 0), |(key, _)| *key);
                    placed.insert(place, (key, mapped));
                }
            }
        }
        made.extend(placed.into_iter().map(|(_, mapped)| mapped));
        let mut named: HashMap<&str, &Mapped> = HashMap::new();
        for mapped in &made {
            if let Some(other) = named.insert(&mapped.name, mapped) {
                let source = |mapped: &Mapped| mapped.tree.tensors().first().map_or("", |&place| tensors[place].name);
                let (a, b) = (quoted(source(other)), quoted(source(mapped)));
                let key = config.key_of(LAYER_KEYS);
                let why = format!("tensors {a} and {b} would both be {} ({key})", quoted(&mapped.name));
                return Err(AnamnesisError::parse(why));
            }
        }
        Ok(Mapping { tensors: made, left_out })
    }
}
