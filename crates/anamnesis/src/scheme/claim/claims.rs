//! Claiming: every stored tensor is claimed exactly once, as a weight, as somebody's companion, or as plain data.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::catalog::{Catalog, Dtype, Rounding, StoredTensor, TensorId, Unreadable};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::QuantConfig;

use super::leftover::Leftover;
use super::role::{ClaimedTensor, QuantScheme, TensorRole};
use crate::scheme::coder::{Coding, Evidence, Recipe};
use crate::scheme::model_class::{Layer, ModelClass};

/// A quantised weight: what it will be called, and the stored tensors it is made of.
pub(crate) struct Weight {
    pub name: String,
    /// Its shape, empty where only its companions know it.
    pub shape: Vec<usize>,
    /// How many values it stands for, as far as the header tells.
    pub values: u64,
    pub scheme: QuantScheme,
    /// How its codes are grouped under scales, where the header alone tells.
    pub blocks: Option<Blocks>,
    /// Its codes, as far as the header tells.
    pub coding: Coding,
    /// The stored tensors that the decoder reads, in its order; the first holds the codes.
    pub parts: Vec<TensorId>,
    pub recipe: Recipe,
}

/// Codes of so many bits, so many of them under one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub bits: u8,
    pub size: u64,
    /// Whether the scales are quantised too.
    pub nested: bool,
}

/// The catalog while schemes claim from it.
pub(crate) struct Claims<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) config: &'a QuantConfig,
    elsewhere: &'a dyn Fn(&str) -> Option<String>,
    rounding: Rounding,
    roles: Vec<Option<TensorRole>>,
    /// What codes are called that are claimed now.
    claiming: &'static str,
    /// Codes, and what they are called.
    codes: Vec<(TensorId, &'static str)>,
    weights: Vec<Weight>,
    problems: Vec<AnamnesisError>,
    leftovers: Vec<Leftover>,
    notes: Vec<String>,
}

/// The outcome: everything has a role, and whatever must not be converted is listed as a problem.
#[derive(Default)]
pub(crate) struct Claimed {
    pub(crate) roles: Vec<TensorRole>,
    pub(crate) weights: Vec<Weight>,
    /// Codes that are no weight, because something is wrong or nobody decodes them: what they are called.
    pub(crate) refused: Vec<(TensorId, &'static str)>,
    /// Why this checkpoint cannot be decoded, in the order found. Inspecting it is still possible.
    pub(crate) problems: Vec<AnamnesisError>,
    /// What looks like a part of a quantised weight and belongs to none, whether it is refused or plain data.
    pub(crate) leftovers: Vec<Leftover>,
    /// What is doubtful about a weight that is decoded all the same, for people.
    pub(crate) notes: Vec<String>,
    /// The places of `weights` in the order of their names, once one is looked up.
    by_name: OnceLock<Vec<u32>>,
}

impl Claimed {
    /// Of a catalog of so many tensors that are all plain data.
    pub(crate) fn all_plain(tensors: usize) -> Self {
        Self { roles: vec![TensorRole::Passthrough; tensors], ..Self::default() }
    }

    /// The weight of this name.
    pub(crate) fn weight(&self, name: &str) -> Option<&Weight> {
        let name_at = |place: &u32| self.weights.get(*place as usize).map_or("", |weight| weight.name.as_str());
        let by_name = self.by_name.get_or_init(|| {
            let mut places: Vec<u32> = (0..self.weights.len() as u32).collect();
            places.sort_by_key(name_at);
            places
        });
        let first = by_name.partition_point(|place| name_at(place) < name);
        let weight = self.weights.get(*by_name.get(first)? as usize)?;
        (weight.name == name).then_some(weight)
    }
}

impl<'a> Claims<'a> {
    pub(in crate::scheme) fn new(
        catalog: &'a Catalog,
        config: &'a QuantConfig,
        elsewhere: &'a dyn Fn(&str) -> Option<String>,
        rounding: Rounding,
    ) -> Self {
        let roles = vec![None; catalog.len()];
        let (codes, weights, problems, leftovers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            catalog,
            config,
            elsewhere,
            rounding,
            roles,
            claiming: "",
            codes,
            weights,
            problems,
            leftovers,
            notes: Vec::new(),
        }
    }

    /// Names what is claimed from here on.
    pub(in crate::scheme) fn begin(&mut self, name: &'static str) {
        self.claiming = name;
    }

    /// The tensors nobody has claimed yet.
    pub(in crate::scheme) fn free(&self) -> impl Iterator<Item = (TensorId, &'a StoredTensor)> + use<'_, 'a> {
        let catalog = self.catalog;
        catalog.iter().filter(|(id, _)| self.roles[id.index()].is_none())
    }

    /// The unclaimed tensor of this name.
    pub(in crate::scheme) fn find_free(&self, name: &str) -> Option<TensorId> {
        self.catalog.find(name).filter(|id| self.roles[id.index()].is_none())
    }

    /// Whether nobody has claimed a tensor yet.
    pub(in crate::scheme) fn is_free(&self, id: TensorId) -> bool {
        self.roles.get(id.index()).is_some_and(Option::is_none)
    }

    /// Claims a tensor for a role; a second claim is refused.
    pub(in crate::scheme) fn take(&mut self, id: TensorId, role: TensorRole) {
        if role == TensorRole::Quantized {
            self.codes.push((id, self.claiming));
        }
        if self.roles[id.index()].replace(role).is_some() {
            let name = quoted(&self.catalog.get(id).name);
            self.problems.push(AnamnesisError::parse(format!("tensor {name} belongs to two quantised weights")));
        }
    }

    /// Claims the codes of a format that is not decoded.
    pub(in crate::scheme) fn take_refused(&mut self, id: TensorId, format: &'static str) {
        let scheme = std::mem::replace(&mut self.claiming, format);
        self.take(id, TensorRole::Quantized);
        self.claiming = scheme;
    }

    /// Adds a weight whose parts have been [taken](Self::take).
    pub(in crate::scheme) fn add(&mut self, weight: Weight) {
        let recipe = match self.rounding {
            Rounding::Once => weight.recipe,
            Rounding::AsLibrary => weight.recipe.by_library(),
        };
        match self.as_its_class_has_it(Weight { recipe, ..weight }) {
            Ok(weight) => self.weights.push(weight),
            Err(problem) => self.refuse(problem),
        }
    }

    /// A weight as the class of its model has it: bitsandbytes and GPTQ store the layers of `Conv1D` as those of `Linear`.
    fn as_its_class_has_it(&self, weight: Weight) -> Result<Weight> {
        let is_of_linear = matches!(weight.scheme, QuantScheme::Bnb4 | QuantScheme::BnbInt8 | QuantScheme::Gptq);
        if !is_of_linear || ModelClass::of(self.config.model_types()).layer(&weight.name) != Layer::Conv1d {
            return Ok(weight);
        }
        let bias = weight.name.strip_suffix("weight").and_then(|module| self.catalog.find(&format!("{module}bias")));
        let outputs = bias.and_then(|id| match self.catalog.get(id).shape[..] {
            [outputs] => Some(outputs),
            _ => None,
        });
        let turned = weight.recipe.turned(&weight.shape, outputs);
        let (recipe, shape) = turned.map_err(|error| error.in_tensor(&weight.name))?;
        Ok(Weight { recipe, shape, ..weight })
    }

    /// Notes why a tensor cannot be decoded.
    pub(in crate::scheme) fn refuse(&mut self, problem: AnamnesisError) {
        self.problems.push(problem);
    }

    /// The configuration where it says one of these keys; names where it does not.
    pub(in crate::scheme) fn evidence(&self, keys: &[&'a str]) -> Evidence {
        self.config.args().place_of(keys).map_or(Evidence::Names, Evidence::Configuration)
    }

    /// Where else a tensor may be, as a clause for a message; `None` where this input is all there is.
    pub(in crate::scheme) fn elsewhere(&self, name: &str) -> Option<String> {
        (self.elsewhere)(name)
    }

    /// Notes what is doubtful about a weight that is decoded.
    pub(in crate::scheme) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Lists a tensor that is left over.
    pub(in crate::scheme) fn tell(&mut self, leftover: Leftover) {
        self.leftovers.push(leftover);
    }

    /// The tensors that were claimed for a role.
    pub(in crate::scheme) fn taken(&self, role: TensorRole) -> impl Iterator<Item = &'a StoredTensor> + use<'_, 'a> {
        let catalog = self.catalog;
        catalog.iter().filter(move |(id, _)| self.roles[id.index()] == Some(role)).map(|(_, tensor)| tensor)
    }

    /// Whether a quantised weight, other than blocks, has been claimed whose name starts with `prefix`.
    pub(in crate::scheme) fn has_quantised(&self, prefix: &str) -> bool {
        let mut inside =
            self.catalog.with_prefix(prefix).filter(|(_, tensor)| !matches!(tensor.dtype, Dtype::Block(_)));
        inside.any(|(id, _)| self.roles[id.index()] == Some(TensorRole::Quantized))
    }

    /// The names of the stored codes, each with the shape of its weight; an empty one is not known yet.
    pub(in crate::scheme) fn shapes(&self) -> impl Iterator<Item = (&'a str, &[usize])> {
        let catalog = self.catalog;
        let codes = |weight: &Weight| weight.parts.first().map(|&codes| catalog.get(codes).name.as_str());
        self.weights.iter().filter_map(move |weight| Some((codes(weight)?, &weight.shape[..])))
    }

    /// The names of the stored codes of weights that have companions, with the names and shapes of these weights.
    pub(in crate::scheme) fn modules(&self) -> impl Iterator<Item = (&'a str, &str, &[usize])> {
        let catalog = self.catalog;
        let scaled = self.weights.iter().filter(|weight| weight.parts.len() > 1 && weight.scheme != QuantScheme::Ggml);
        scaled.filter_map(move |weight| {
            let codes = catalog.get(*weight.parts.first()?);
            Some((codes.name.as_str(), weight.name.as_str(), &weight.shape[..]))
        })
    }

    /// The name of a weight that needs companions.
    pub(in crate::scheme) fn scaled_weight(&self) -> Option<&str> {
        let needs_companions = |weight: &&Weight| weight.parts.len() > 1 && weight.scheme != QuantScheme::Ggml;
        self.weights.iter().find(needs_companions).map(|weight| weight.name.as_str())
    }

    pub(in crate::scheme) fn finish(self) -> Claimed {
        let roles = self.roles.into_iter().map(|role| role.unwrap_or(TensorRole::Passthrough)).collect();
        let unreadable = self.catalog.unreadable.iter();
        let mut problems: Vec<_> = unreadable.map(Unreadable::error).collect();
        problems.extend(self.problems);
        let decoded: HashSet<_> = self.weights.iter().filter_map(|weight| weight.parts.first()).collect();
        let refused = self.codes.into_iter().filter(|(id, _)| !decoded.contains(id)).collect();
        let (weights, leftovers, notes) = (self.weights, self.leftovers, self.notes);
        Claimed { roles, weights, refused, problems, leftovers, notes, by_name: OnceLock::new() }
    }
}

impl Claimed {
    /// The scheme of most values, or of nothing. Of what is not decoded, the stored elements count.
    pub(crate) fn dominant_scheme(&self, catalog: &Catalog) -> QuantScheme {
        let decoded = self.weights.iter().map(|weight| (weight.scheme, weight.values));
        let named = |&(id, name): &(TensorId, _)| (QuantScheme::Refused(name), catalog.get(id).elements());
        let mut totals: Vec<(QuantScheme, u64)> = Vec::new();
        for (scheme, values) in decoded.chain(self.refused.iter().map(named)) {
            match totals.iter_mut().find(|(known, _)| *known == scheme) {
                Some((_, total)) => *total = total.saturating_add(values),
                None => totals.push((scheme, values)),
            }
        }
        // The first of equals wins, so that the answer does not depend on how the maximum is searched.
        totals.iter().rev().max_by_key(|(_, total)| *total).map_or(QuantScheme::Unquantized, |(scheme, _)| *scheme)
    }

    /// One row per stored tensor, in the catalog's order.
    pub(crate) fn rows(&self, catalog: &Catalog) -> Vec<ClaimedTensor> {
        let row = |((_, tensor), &role): ((TensorId, &StoredTensor), &TensorRole)| ClaimedTensor {
            role,
            dtype: tensor.dtype,
            bytes: tensor.extent.bytes,
            values: Some(tensor.elements()),
        };
        let mut rows: Vec<ClaimedTensor> = catalog.iter().zip(&self.roles).map(row).collect();
        for weight in &self.weights {
            if let Some(first) = weight.parts.first() {
                rows[first.index()].values = Some(weight.values);
            }
        }
        for (id, _) in &self.refused {
            rows[id.index()].values = None;
        }
        rows
    }
}
