//! A description of a quantisation: an object of a document with its patterns parsed.

use super::args::Layer;
use super::documents::FoundDescription;
use super::groups::Groups;
use super::ignored::{Ignored, Inclusions, PatternBudget};
use super::json::{Json, Members};
use super::known;
use super::place::Place;
use super::rules::{self, Rules};
use crate::error::printable;

/// A description with its parsed lists, rules and groups.
#[derive(Debug)]
pub(super) struct Description {
    document: String,
    /// Dotted keys; empty for a whole document.
    path: String,
    pub(super) members: Members,
    pub(super) ignored: Ignored,
    pub(super) only: Inclusions,
    pub(super) rules: Vec<Rules>,
    pub(super) groups: Groups,
}

/// The member with the method.
pub(super) const METHOD: &str = "quant_method";
/// The known formats of sparse weights.
const SPARSITY_FORMATS: [&str; 3] = ["dense", "sparse-bitmask", "sparse-24-bitmask"];
/// The member with ModelOpt's algorithm.
pub(super) const ALGORITHM: &str = "quant_algo";

impl Description {
    pub(super) fn read(document: &str, found: FoundDescription, budget: &mut PatternBudget) -> Self {
        let FoundDescription { path, members } = found;
        Self {
            document: document.to_owned(),
            ignored: Ignored::read(&members, budget),
            only: Inclusions::read(&members, budget),
            rules: Rules::read(&members, &path, budget),
            groups: Groups::read(&members, budget),
            path,
            members,
        }
    }

    pub(super) fn document(&self) -> &str {
        &self.document
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place { document: &self.document, path: &self.path, inside: [""; 4] }
    }

    pub(super) fn layer(&self) -> Layer<'_> {
        Layer { members: &self.members, place: self.place() }
    }

    /// The string of a member; a value of another type is reported as a problem elsewhere.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.members.get(key)? {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The algorithm in ModelOpt's rule for the module of exactly this name.
    pub(super) fn algorithm_of(&self, module: &str) -> Option<&str> {
        match self.members.get("quantized_layers")?.members()?.get(module)?.members()?.get(ALGORITHM)? {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        let rules = self.rules.iter().map(|rules| rules.match_cost(module));
        let lists = [1, self.ignored.match_cost(module), self.only.match_cost(module), self.groups.match_cost(module)];
        rules.chain(lists).fold(0, u64::saturating_add)
    }

    /// Whether it is in the form of MLX.
    pub(super) fn is_mlx(&self) -> bool {
        rules::is_mlx(&self.members, &self.path)
    }

    /// An override or module list of this description that `other` does not have with the same value.
    pub(super) fn differing_override<'a>(&'a self, other: &'a Self) -> Option<(&'a str, Option<&'a Json>)> {
        let is_choice = |key: &str, value: &Json| match self.is_mlx() {
            true => rules::is_mlx_rule(key, value),
            false => FOREIGN_KEYS.contains(&key) && is_set(value),
        };
        let mut choices = self.members.iter().filter(|(key, value)| is_choice(key, value));
        choices
            .find(|(key, value)| other.members.get(key) != Some(*value))
            .map(|(key, _)| (key, other.members.get(key)))
    }

    /// The problems of the description.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        known::check(&self.members, self.place(), &mut problems);
        if self.is_mlx() {
            let others = FOREIGN_KEYS.into_iter().filter(|key| self.members.get(key).is_some_and(is_set));
            let why = |key| format!("{} is not a member of the quantisation of MLX", self.place().with(key));
            problems.extend(others.map(why));
        }
        problems
    }

    /// Features that no output could represent: rotated or sparse weights. Yields the name of the member and the
    /// message.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&'static str, String)> {
        let transforms = ["transform_config", "rotation_config", "spinquant_config"].into_iter();
        let transformed = transforms.filter(|key| self.members.get(key).is_some_and(is_set)).map(|key| {
            (
                key,
                format!(
                    "{}: the weights are transformed in addition to being quantised, which is not supported",
                    self.place()
                ),
            )
        });
        let sparsity = self.members.get("sparsity_config").filter(|value| is_set(value));
        let sparse = sparsity.and_then(|config| {
            let format = config.members()?.get("format");
            let is_dense = matches!(format, Some(Json::Text(format)) if SPARSITY_FORMATS.contains(&format.as_str()));
            let found = format.map_or_else(|| "none".to_owned(), Json::brief);
            let text = format!("{}: the sparsity format is {found}; dense and masks are known", self.place());
            (!is_dense).then_some(("sparsity_config", text))
        });
        let experts = self.members.get("moe_sparsity_config").filter(|value| is_set(value)).map(|_| {
            ("moe_sparsity_config", format!("{}: experts are pruned, and no tensor records which", self.place()))
        });
        transformed.chain(sparse).chain(experts)
    }

    /// Its main members, for people.
    pub(super) fn evidence(&self) -> Vec<String> {
        const KEYS: [&str; 13] = [
            METHOD,
            "quant_algo",
            "format",
            "fmt",
            "bits",
            "group_size",
            "mode",
            "checkpoint_format",
            "packing_format",
            "version",
            "weight_block_size",
            "load_in_4bit",
            "load_in_8bit",
        ];
        // The usual place is not shown.
        let path = if self.path == "quantization_config" { "" } else { self.path.as_str() };
        let place = Place { path, ..self.place() };
        let line = |place: Place<'_>, text: String| printable(&format!("{place}: {text}"), MAX_LINE_CHARS);
        let mut lines = vec![line(place, summary(&self.members, &KEYS))];
        for group in self.groups.iter() {
            if let Some(weights) = self.group(&group.name).and_then(|group| group.get("weights")?.members()) {
                lines.push(line(place.with(Groups::KEY).with(&group.name), summary(weights, &WEIGHT_KEYS)));
            }
        }
        for rules in self.rules.iter().filter(|rules| rules.len() > 0) {
            lines.push(line(place.with(rules.key), format!("{} overrides of modules", rules.len())));
        }
        lines
    }

    /// The members of a group.
    pub(super) fn group(&self, name: &str) -> Option<&Members> {
        self.members.get(Groups::KEY)?.members()?.get(name)?.members()
    }
}

/// Members by which other methods select modules. MLX has none of them: its overrides are members named after modules.
const FOREIGN_KEYS: [&str; 10] = [
    "dynamic",
    "extra_config",
    "quantized_layers",
    "config_groups",
    "ignore",
    "exclude_modules",
    "modules_to_not_convert",
    "ignored_layers",
    "llm_int8_skip_modules",
    "modules_in_block_to_quantize",
];

/// Longest line of evidence, in characters.
const MAX_LINE_CHARS: usize = 400;

/// The weight arguments shown as evidence.
pub(super) const WEIGHT_KEYS: [&str; 6] =
    ["num_bits", "type", "strategy", "group_size", "block_structure", "symmetric"];

/// These members with their values, as text.
pub(super) fn summary(members: &Members, keys: &[&str]) -> String {
    let entry = |key: &&str| Some(format!("{key} {}", members.get(key).filter(|value| **value != Json::Null)?.brief()));
    keys.iter().filter_map(entry).collect::<Vec<_>>().join(", ")
}

/// Whether a value is more than an empty object, list or string.
fn is_set(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Object(members) => members.iter().any(|(_, value)| is_set(value)),
        Json::List(items) => items.iter().any(is_set),
        Json::Flag(flag) => *flag,
        Json::Text(text) => !text.is_empty(),
        Json::Number(_) => true,
    }
}
