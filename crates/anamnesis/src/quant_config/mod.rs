//! What the configuration says about a module, and where it says so.
//!
//! | file | answers |
//! |---|---|
//! | `documents` | which documents and places describe a quantisation |
//! | `known` `args` | what their members may be, and what they are |
//! | `expression` `pattern` `pattern_set` | which modules an entry means |
//! | `ignored` `rules` `groups` | which modules are left as they are, which have arguments of their own |
//! | `markers` | what a file says about single modules by itself |
//! | `module` | all of that for one module |
//!
//! Everything is read once, when a checkpoint is opened. What cannot be read, contradicts itself or asks for what nobody does
//! is a problem that names document, key, what was found and what is allowed; it stops a conversion and not an inspection.
//! A new list is a line in `ignored`, a new kind of override a line in `rules`.

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
mod module;
mod pattern;
mod pattern_set;
mod place;
mod rules;

use crate::error::AnamnesisError;

pub(crate) use args::{Args, Integer};
use description::{ALGORITHM, Description, METHOD};
use documents::Search;
pub(crate) use documents::{DOCUMENTS, QUANTISATION_ONLY, is_quantisation};
pub use gptq_format::GptqFormat;
pub(crate) use groups::Target;
use ignored::Allowance;
pub(crate) use markers::Markers;
pub(crate) use module::ModuleConfig;
pub(crate) use place::Place;

/// What is said about the quantisation of a model. Without any configuration, everything here is empty.
#[derive(Debug, Default)]
pub(crate) struct QuantConfig {
    /// The most telling first.
    descriptions: Vec<Description>,
    /// What the files of the weights say by themselves.
    markers: Markers,
    problems: Vec<AnamnesisError>,
    /// The kinds of the model and of its parts, by the names that transformers has for them.
    model_types: Vec<String>,
    /// What the caller says about GPTQ weights, whatever the documents say.
    gptq_format: Option<GptqFormat>,
}

/// Most bytes of names that are looked at to ask every pattern for every module once. The largest models take a thousandth.
const MAX_MATCHING_WORK: u64 = 1 << 29;

impl QuantConfig {
    /// Reads the documents that stand beside the weights (name and text, the most telling first).
    pub(crate) fn read<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self::read_as(documents, Search::of)
    }

    /// Reads a document that the caller gives: a configuration, or a description by itself.
    pub(crate) fn read_given(name: &str, text: &[u8]) -> Self {
        Self::read_as([(name, text)], |_| Search::Either)
    }

    fn read_as<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>, search: fn(&str) -> Search) -> Self {
        let mut config = Self::default();
        let mut allowance = Allowance::default();
        for (name, text) in documents {
            match documents::find(text, search(name)) {
                Ok(findings) => {
                    let found = findings.descriptions.into_iter();
                    config.descriptions.extend(found.map(|found| Description::read(name, found, &mut allowance)));
                    config.model_types.extend(findings.model_types);
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

    /// Refuses to ask patterns for modules where that would take too long: nothing is said then, which is a problem.
    pub(crate) fn within_work<'a>(mut self, tensors: impl Iterator<Item = &'a str>) -> Self {
        let (mut work, mut last) = (0u64, "");
        for tensor in tensors {
            let module = tensor.rsplit_once('.').map_or(tensor, |(module, _)| module);
            if module != std::mem::replace(&mut last, module) {
                let asked = self.descriptions.iter().map(|description| description.work(module));
                work = asked.fold(work, u64::saturating_add);
            }
            if work > MAX_MATCHING_WORK {
                let why = format!(
                    "{}: the lists and expressions that mean modules are too many, or too complex, for the names of this \
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

    /// Lets the caller say how GPTQ weights store their zero points.
    pub(crate) fn with_gptq_format(mut self, format: Option<GptqFormat>) -> Self {
        self.gptq_format = format;
        self
    }

    /// Adds what the files of the weights say by themselves; `is_stored` tells whether a module has tensors in them.
    pub(crate) fn with_markers(mut self, mut markers: Markers, is_stored: &dyn Fn(&str) -> bool) -> Self {
        self.problems.extend(markers.problems(is_stored));
        self.markers = markers;
        self
    }

    /// The modules that files speak of by themselves, in order.
    pub(crate) fn marked(&self) -> impl Iterator<Item = &str> {
        self.markers.modules()
    }

    /// What the caller says about GPTQ weights.
    pub(crate) fn gptq_format(&self) -> Option<GptqFormat> {
        self.gptq_format
    }

    /// The kinds of the model and of its parts.
    pub(crate) fn model_types(&self) -> &[String] {
        &self.model_types
    }

    /// Whether the configuration says that the model is quantised.
    pub(crate) fn is_present(&self) -> bool {
        !self.descriptions.is_empty()
    }

    /// The most telling document, for messages.
    pub(crate) fn file(&self) -> &str {
        self.descriptions.first().map_or("config.json", Description::document)
    }

    /// The telling members of every description, for people.
    pub(crate) fn evidence(&self) -> Vec<String> {
        self.descriptions.iter().flat_map(Description::evidence).collect()
    }

    /// What is wrong with the configuration. It leaves in doubt what the tensors mean.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &AnamnesisError> {
        self.problems.iter()
    }

    /// Where two descriptions say different things of the same.
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
            let said = |description: &&Description| {
                description.members.get(key).is_some_and(|value| *value != json::Json::Null)
            };
            let mut saying =
                self.descriptions.iter().filter(said).map(|description| (description, description.members.get(key)));
            let (first, a) = saying.next()?;
            let (other, b) = saying.find(|(_, value)| *value != a)?;
            let [(first, a), (other, b)] =
                [(first, a?), (other, b?)].map(|(description, value)| (description.place(), value.brief()));
            Some(match first.document() == other.document() {
                true => format!("{first} says {key} is {a}, {other} says {b}"),
                false => format!("{} says {key} is {a}, {} says {b}", first.document(), other.document()),
            })
        })
    }

    /// Where a description says something about single modules that MLX's does not: MLX reads its own, and others may read the
    /// other.
    fn conflict_with_mlx(&self) -> Option<String> {
        let mlx = self.descriptions.iter().find(|description| description.is_mlx())?;
        let others = self.descriptions.iter().filter(|other| !std::ptr::eq(*other, mlx));
        let pairs = others.flat_map(|other| [(other, mlx), (mlx, other)]);
        let mut pairs = pairs.filter(|(_, reader)| reader.is_mlx());
        pairs.find_map(|(saying, reader)| {
            let (key, found) = saying.choice(reader)?;
            let found =
                found.map_or_else(|| "says nothing of it".to_owned(), |value| format!("says {}", value.brief()));
            Some(format!("{} decides about single modules, {} {found}", saying.place().with(key), reader.place()))
        })
    }

    /// What is said about all modules.
    pub(crate) fn args(&self) -> Args<'_> {
        Args { layers: self.descriptions.iter().map(Description::layer).collect() }
    }

    /// What is said about a module.
    pub(crate) fn module(&self, name: &str) -> ModuleConfig<'_> {
        ModuleConfig::of(&self.descriptions, self.markers.of(name), name)
    }

    /// `quant_method`, the scheme's name in the configuration.
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

    /// That the configuration says the weights are quantised, as a clause for a message.
    pub(crate) fn says_quantised(&self) -> Option<String> {
        let method = self.method().or_else(|| self.general_algorithm())?;
        Some(format!("{} says the weights are quantised by {}", self.file(), crate::error::quoted(method)))
    }

    /// Whether a quantisation of MLX is described.
    pub(crate) fn is_mlx(&self) -> bool {
        self.descriptions.iter().any(Description::is_mlx)
    }

    /// The first entry of the ignore lists that cannot be read, and why. It means no module.
    pub(crate) fn ignore_problem(&self) -> Option<&str> {
        self.descriptions.iter().find_map(|description| description.ignored.problem())
    }

    /// The groups that mean none of these modules, for people.
    pub(crate) fn unused_groups(&self, modules: &[&str]) -> Vec<String> {
        let unused = |description: &Description| {
            let place = description.place().with(groups::Groups::KEY);
            let names = description.groups.unused(modules).into_iter();
            names.map(|name| format!("{} is for no module of this checkpoint", place.with(name))).collect::<Vec<_>>()
        };
        self.descriptions.iter().flat_map(unused).collect()
    }
}

#[cfg(test)]
mod tests;
