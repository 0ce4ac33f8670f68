//! The state of claiming: every stored tensor gets exactly one role, as the codes of a weight, as a companion, or as
//! plain data.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::catalog::{Catalog, Dtype, Rounding, StoredTensor, TensorId, Unreadable};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::QuantConfig;

use super::leftover::Leftover;
use super::role::{ClaimedTensor, QuantScheme, TensorRole};
use crate::scheme::coder::{Coding, Evidence, Recipe};
use crate::scheme::model_class::{Layer, ModelClass};

/// A quantised weight: the name it is decoded under, and the stored tensors it is made of.
pub(crate) struct Weight {
    pub name: String,
    /// Its shape; empty if the shape is known only from the contents of its companions.
    pub shape: Vec<usize>,
    /// How many values it decodes to; an estimate if the header does not determine it.
    pub values: u64,
    pub scheme: QuantScheme,
    /// How its codes are grouped under scales, if the header determines it.
    pub blocks: Option<Blocks>,
    /// How its codes are stored, as far as the header determines it.
    pub coding: Coding,
    /// The stored tensors that the decoder reads, in its order; the first holds the codes.
    pub parts: Vec<TensorId>,
    pub recipe: Recipe,
}

/// The geometry of a block-wise quantisation: bits per code and codes per scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub bits: u8,
    pub size: u64,
    /// Whether the scales are quantised too.
    pub nested: bool,
}

/// A catalog whose tensors are being claimed: the roles given so far, and the weights found.
pub(crate) struct Claims<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) config: &'a QuantConfig,
    elsewhere: &'a dyn Fn(&str) -> Option<String>,
    rounding: Rounding,
    roles: Vec<Option<TensorRole>>,
    /// The format name under which codes are claimed next.
    format: &'static str,
    /// The tensors claimed as codes, each with the name of its format.
    codes: Vec<(TensorId, &'static str)>,
    weights: Vec<Weight>,
    problems: Vec<AnamnesisError>,
    leftovers: Vec<Leftover>,
    notes: Vec<String>,
}

/// The result of claiming: every tensor has a role, and whatever must not be converted is listed as a problem.
#[derive(Default)]
pub(crate) struct Claimed {
    pub(crate) roles: Vec<TensorRole>,
    pub(crate) weights: Vec<Weight>,
    /// Codes that belong to no decoded weight, because they are inconsistent or their format is not decoded; each with
    /// the name of the format.
    pub(crate) refused: Vec<(TensorId, &'static str)>,
    /// Why this checkpoint cannot be decoded, in the order found. Inspecting it is still possible.
    pub(crate) problems: Vec<AnamnesisError>,
    /// Tensors that look like parts of a quantised weight and belong to none, whether they are refused or copied as
    /// plain data.
    pub(crate) leftovers: Vec<Leftover>,
    /// Human-readable doubts about weights that are decoded all the same.
    pub(crate) notes: Vec<String>,
    /// Indices into `weights` sorted by name, built by the first lookup.
    by_name: OnceLock<Vec<u32>>,
}

impl Claimed {
    /// The result for a catalog of `tensors` tensors that are all plain data.
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
            format: "",
            codes,
            weights,
            problems,
            leftovers,
            notes: Vec::new(),
        }
    }

    /// Sets the format name under which codes are claimed from here on.
    pub(in crate::scheme) fn set_format(&mut self, format: &'static str) {
        self.format = format;
    }

    /// The tensors that are not claimed yet.
    pub(in crate::scheme) fn unclaimed(&self) -> impl Iterator<Item = (TensorId, &'a StoredTensor)> + use<'_, 'a> {
        let catalog = self.catalog;
        catalog.iter().filter(|(id, _)| self.roles[id.index()].is_none())
    }

    /// The unclaimed tensor of this name.
    pub(in crate::scheme) fn find_unclaimed(&self, name: &str) -> Option<TensorId> {
        self.catalog.find(name).filter(|id| self.roles[id.index()].is_none())
    }

    /// Whether a tensor is not claimed yet.
    pub(in crate::scheme) fn is_unclaimed(&self, id: TensorId) -> bool {
        self.roles.get(id.index()).is_some_and(Option::is_none)
    }

    /// Claims a tensor for a role; a second claim is refused.
    pub(in crate::scheme) fn take(&mut self, id: TensorId, role: TensorRole) {
        if role == TensorRole::Quantized {
            self.codes.push((id, self.format));
        }
        if self.roles[id.index()].replace(role).is_some() {
            let name = quoted(&self.catalog.get(id).name);
            self.problems.push(AnamnesisError::parse(format!("tensor {name} belongs to two quantised weights")));
        }
    }

    /// Claims the codes of a format that is not decoded.
    pub(in crate::scheme) fn take_refused(&mut self, id: TensorId, format: &'static str) {
        let outer = std::mem::replace(&mut self.format, format);
        self.take(id, TensorRole::Quantized);
        self.format = outer;
    }

    /// Adds a weight whose parts have been [taken](Self::take).
    pub(in crate::scheme) fn add(&mut self, weight: Weight) {
        let recipe = match self.rounding {
            Rounding::Once => weight.recipe,
            Rounding::AsLibrary => weight.recipe.by_library(),
        };
        match self.transpose_conv1d(Weight { recipe, ..weight }) {
            Ok(weight) => self.weights.push(weight),
            Err(problem) => self.refuse(problem),
        }
    }

    /// Transposes the weight of a `Conv1D` layer, which bitsandbytes and GPTQ store like that of a `Linear` layer.
    fn transpose_conv1d(&self, weight: Weight) -> Result<Weight> {
        let is_stored_as_linear = matches!(weight.scheme, QuantScheme::Bnb4 | QuantScheme::BnbInt8 | QuantScheme::Gptq);
        if !is_stored_as_linear || ModelClass::of(self.config.model_types()).layer(&weight.name) != Layer::Conv1d {
            return Ok(weight);
        }
        let bias = weight.name.strip_suffix("weight").and_then(|module| self.catalog.find(&format!("{module}bias")));
        let outputs = bias.and_then(|id| match self.catalog.get(id).shape[..] {
            [outputs] => Some(outputs),
            _ => None,
        });
        let transposed = weight.recipe.transposed(&weight.shape, outputs);
        let (recipe, shape) = transposed.map_err(|error| error.in_tensor(&weight.name))?;
        Ok(Weight { recipe, shape, ..weight })
    }

    /// Records why a tensor cannot be decoded.
    pub(in crate::scheme) fn refuse(&mut self, problem: AnamnesisError) {
        self.problems.push(problem);
    }

    /// The evidence for a weight's format: the configuration if it has one of these keys, otherwise the tensor names.
    pub(in crate::scheme) fn evidence(&self, keys: &[&'a str]) -> Evidence {
        self.config.args().place_of(keys).map_or(Evidence::Names, Evidence::Configuration)
    }

    /// Which other file may hold a tensor, as a clause for a message; `None` if this input is complete.
    pub(in crate::scheme) fn elsewhere(&self, name: &str) -> Option<String> {
        (self.elsewhere)(name)
    }

    /// Records a doubt about a weight that is decoded all the same.
    pub(in crate::scheme) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Lists a tensor that is left over.
    pub(in crate::scheme) fn add_leftover(&mut self, leftover: Leftover) {
        self.leftovers.push(leftover);
    }

    /// The tensors that were claimed for a role.
    pub(in crate::scheme) fn with_role(
        &self,
        role: TensorRole,
    ) -> impl Iterator<Item = &'a StoredTensor> + use<'_, 'a> {
        let catalog = self.catalog;
        catalog.iter().filter(move |(id, _)| self.roles[id.index()] == Some(role)).map(|(_, tensor)| tensor)
    }

    /// Whether a quantised weight whose name starts with `prefix` has been claimed; tensors of ggml blocks do not
    /// count.
    pub(in crate::scheme) fn has_quantised(&self, prefix: &str) -> bool {
        let mut inside =
            self.catalog.with_prefix(prefix).filter(|(_, tensor)| !matches!(tensor.dtype, Dtype::Block(_)));
        inside.any(|(id, _)| self.roles[id.index()] == Some(TensorRole::Quantized))
    }

    /// The names of the stored codes, each with the shape of its weight; a shape that is not known yet is empty.
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

    /// The name of the first weight that needs companions.
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
    /// The scheme with the most values, or `Unquantized`. A tensor that is not decoded counts by its stored elements.
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
        // Of equal totals the first wins: `max_by_key` returns the last maximum, hence `rev`.
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
