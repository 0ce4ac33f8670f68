//! The quantisation configuration of a model: the options of each module, and the place that sets each of them.
//!
//! | file | holds |
//! |---|---|
//! | `documents` | the documents and members that describe a quantisation |
//! | `known` `args` | the known members, their types and values |
//! | `expression` `pattern` `pattern_set` | patterns that match modules |
//! | `ignored` `rules` `groups` | excluded modules, overrides and groups |
//! | `markers` | descriptions of single modules inside weight files |
//! | `storage` `model_sizes` | tables of stored tensors, and the sizes of the model's layers |
//! | `module_table` | a sidecar with an object per module |
//! | `module` | the result for one module |
//!
//! Everything is read once, when a checkpoint is opened. A member that is malformed, contradictory or unsupported is a
//! problem that names document, key, value and allowed values; it stops a conversion but not an inspection. A new
//! ignore list is a line in `ignored`, a new kind of override a line in `rules`.

mod args;
mod description;
mod documents;
mod expression;
mod gptq_format;
mod groups;
mod ignored;
mod json;
mod known;
mod markers;
mod model_sizes;
mod module;
mod module_table;
mod pattern;
mod pattern_set;
mod place;
mod rules;
mod storage;

use crate::error::AnamnesisError;

pub(crate) use args::{Args, Integer};
use description::{ALGORITHM, Description, METHOD};
use documents::Search;
pub(crate) use documents::{DOCUMENTS, QUANTISATION_ONLY, is_quantisation};
pub use gptq_format::GptqFormat;
pub(crate) use groups::Target;
use ignored::PatternBudget;
pub(crate) use markers::Markers;
pub(crate) use module::ModuleConfig;
pub(crate) use module_table::MODULE_TABLE;
pub(crate) use place::Place;

/// The quantisation configuration of a model; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct QuantConfig {
    /// The most authoritative first.
    descriptions: Vec<Description>,
    /// Markers inside the weight files.
    markers: Markers,
    problems: Vec<AnamnesisError>,
    /// The `model_type` of the model and of its sub-models.
    model_types: Vec<String>,
    /// The dimensions of the model's matrices.
    model_sizes: Vec<u64>,
    /// The sidecar with an object per module; empty if there is none.
    module_table: json::Members,
    /// The GPTQ format that the caller sets, which overrides the documents.
    gptq_format: Option<GptqFormat>,
}

/// Limit on the bytes of names examined to match every pattern against every module. The largest models need a
/// thousandth of it.
const MAX_MATCHING_WORK: u64 = 1 << 29;

impl QuantConfig {
    /// Reads the documents next to the weights (name and text, the most authoritative first).
    pub(crate) fn read<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self::read_as(documents, Search::of)
    }

    /// Reads a document given by the caller: a configuration, or a bare description.
    pub(crate) fn read_given(name: &str, text: &[u8]) -> Self {
        Self::read_as([(name, text)], |_| Search::Either)
    }

    fn read_as<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>, search: fn(&str) -> Search) -> Self {
        let mut config = Self::default();
        let mut budget = PatternBudget::default();
        for (name, text) in documents {
            match documents::find(text, search(name)) {
                Ok(findings) => {
                    let found = findings.descriptions.into_iter();
                    config.descriptions.extend(found.map(|found| Description::read(name, found, &mut budget)));
                    config.model_types.extend(findings.model_types);
                    config.model_sizes.extend(findings.model_sizes);
                    let misplaced =
                        findings.misplaced.iter().map(|why| AnamnesisError::parse(format!("{name}: {why}")));
                    config.problems.extend(misplaced);
                }
                Err(why) => config.problems.push(AnamnesisError::parse(format!("{name} {why}"))),
            }
        }
        for description in &config.descriptions {
            config.problems.extend(description.problems().iter().map(AnamnesisError::parse));
            let refusals = description.refusals();
            config.problems.extend(refusals.map(|(format, detail)| AnamnesisError::unsupported(format, detail)));
        }
        config.problems.extend(config.conflict().or_else(|| config.conflict_with_mlx()).map(AnamnesisError::parse));
        config
    }

    /// Drops the descriptions, with a problem, if matching all patterns against all modules would take too long.
    pub(crate) fn within_matching_limit<'a>(mut self, tensors: impl Iterator<Item = &'a str>) -> Self {
        let (mut match_cost, mut last) = (0u64, "");
        for tensor in tensors {
            let module = tensor.rsplit_once('.').map_or(tensor, |(module, _)| module);
            if module != std::mem::replace(&mut last, module) {
                let costs = self.descriptions.iter().map(|description| description.match_cost(module));
                match_cost = costs.fold(match_cost, u64::saturating_add);
            }
            if match_cost > MAX_MATCHING_WORK {
                let why = format!(
                    "{}: the patterns of modules are too many, or too complex, for the number of modules of this \
                     checkpoint",
                    self.file()
                );
                self.problems.push(AnamnesisError::limit("MAX_MATCHING_WORK", why));
                self.descriptions.clear();
                break;
            }
        }
        self
    }

    /// Sets the GPTQ format of the zero points.
    pub(crate) fn with_gptq_format(mut self, format: Option<GptqFormat>) -> Self {
        self.gptq_format = format;
        self
    }

    /// Adds the markers of the weight files; `is_stored` returns whether a module has tensors.
    pub(crate) fn with_markers(mut self, mut markers: Markers, is_stored: &dyn Fn(&str) -> bool) -> Self {
        self.problems.extend(markers.problems(is_stored));
        self.markers = markers;
        self
    }

    /// The modules with a marker, in order.
    pub(crate) fn marked(&self) -> impl Iterator<Item = &str> {
        self.markers.modules()
    }

    /// The GPTQ format that the caller set.
    pub(crate) fn gptq_format(&self) -> Option<GptqFormat> {
        self.gptq_format
    }

    /// The `model_type` of the model and of its sub-models.
    pub(crate) fn model_types(&self) -> &[String] {
        &self.model_types
    }

    /// The dimensions of the model's matrices that the configuration names.
    pub(crate) fn model_sizes(&self) -> &[u64] {
        &self.model_sizes
    }

    /// Whether the configuration describes a quantisation.
    pub(crate) fn is_present(&self) -> bool {
        !self.descriptions.is_empty()
    }

    /// The name of the most authoritative document, for messages.
    pub(crate) fn file(&self) -> &str {
        self.descriptions.first().map_or("config.json", Description::document)
    }

    /// The main members of every description, for people.
    pub(crate) fn evidence(&self) -> Vec<String> {
        self.descriptions.iter().flat_map(Description::evidence).collect()
    }

    /// The problems of the configuration, which leave the meaning of tensors in doubt.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &AnamnesisError> {
        self.problems.iter()
    }

    /// A contradiction between two descriptions.
    fn conflict(&self) -> Option<String> {
        const KEYS: [&str; 9] = [
            METHOD,
            "mode",
            ALGORITHM,
            "bits",
            "group_size",
            "checkpoint_format",
            "fmt",
            "kv_cache_quant_algo",
            "weight_block_size",
        ];
        KEYS.into_iter().find_map(|key| {
            let has_value = |description: &&Description| {
                description.members.get(key).is_some_and(|value| *value != json::Json::Null)
            };
            let mut values = self
                .descriptions
                .iter()
                .filter(has_value)
                .map(|description| (description, description.members.get(key)));
            let (first, a) = values.next()?;
            let (other, b) = values.find(|(_, value)| *value != a)?;
            let [(first, a), (other, b)] =
                [(first, a?), (other, b?)].map(|(description, value)| (description.place(), value.brief()));
            Some(match first.document() == other.document() {
                true => format!("{first}: {key} is {a}, but {b} in {other}"),
                false => format!("{}: {key} is {a}, but {b} in {}", first.document(), other.document()),
            })
        })
    }

    /// A difference in per-module overrides between the description of MLX and another one: MLX reads its own, other
    /// libraries may read the other.
    fn conflict_with_mlx(&self) -> Option<String> {
        let mlx = self.descriptions.iter().find(|description| description.is_mlx())?;
        let others = self.descriptions.iter().filter(|other| !std::ptr::eq(*other, mlx));
        let pairs = others.flat_map(|other| [(other, mlx), (mlx, other)]);
        let mut pairs = pairs.filter(|(_, reader)| reader.is_mlx());
        pairs.find_map(|(described, reader)| {
            let (key, found) = described.differing_override(reader)?;
            let found = found.map_or_else(|| "does not have it".to_owned(), |value| format!("has {}", value.brief()));
            Some(format!("{} overrides single modules, but {} {found}", described.place().with(key), reader.place()))
        })
    }

    /// The options that apply to all modules.
    pub(crate) fn args(&self) -> Args<'_> {
        Args { layers: self.descriptions.iter().map(Description::layer).collect() }
    }

    /// The options of a module.
    pub(crate) fn module(&self, name: &str) -> ModuleConfig<'_> {
        ModuleConfig::of(&self.descriptions, self.markers.of(name), name)
    }

    /// `quant_method`: the name of the scheme.
    pub(crate) fn method(&self) -> Option<&str> {
        self.descriptions.iter().find_map(|description| description.text(METHOD))
    }

    /// The algorithm of ModelOpt (`quant_algo`) of a module: that of the innermost module around it which has one in
    /// `quantized_layers`, or else the general one.
    pub(crate) fn algorithm(&self, module: &str) -> Option<&str> {
        let mut around = std::iter::successors(Some(module), |name| Some(name.rsplit_once('.')?.0));
        let of_layer = |name| self.descriptions.iter().find_map(|description| description.algorithm_of(name));
        around.find_map(of_layer).or_else(|| self.general_algorithm())
    }

    fn general_algorithm(&self) -> Option<&str> {
        self.descriptions.iter().find_map(|description| description.text(ALGORITHM))
    }

    /// A clause for messages that the configuration declares the weights quantised; `None` if it does not.
    pub(crate) fn declared_quantisation(&self) -> Option<String> {
        let method = self.method().or_else(|| self.general_algorithm())?;
        Some(format!("{} declares the weights quantised by {}", self.file(), crate::error::quoted(method)))
    }

    /// Whether a description is in the form of MLX.
    pub(crate) fn is_mlx(&self) -> bool {
        self.descriptions.iter().any(Description::is_mlx)
    }

    /// The first invalid entry of the ignore lists, and why. It matches no module.
    pub(crate) fn ignore_problem(&self) -> Option<&str> {
        self.descriptions.iter().find_map(|description| description.ignored.problem())
    }

    /// The groups that match none of these modules, for people.
    pub(crate) fn unused_groups(&self, modules: &[&str]) -> Vec<String> {
        let unused = |description: &Description| {
            let place = description.place().with(groups::Groups::KEY);
            let names = description.groups.unused(modules).into_iter();
            names.map(|name| format!("{} matches no module of this checkpoint", place.with(name))).collect::<Vec<_>>()
        };
        self.descriptions.iter().flat_map(unused).collect()
    }
}

#[cfg(test)]
mod tests;
