//! One description of a quantisation: an object of a document, read whole.

use super::args::Layer;
use super::documents::Found;
use super::groups::Groups;
use super::ignored::{Allowance, Ignored, Only};
use super::json::{Json, Members};
use super::known;
use super::place::Place;
use super::rules::{self, Rules};
use crate::error::printable;

/// A description, and what its lists, rules and groups mean.
#[derive(Debug)]
pub(super) struct Description {
    document: String,
    /// Dotted keys; empty where it is the whole document.
    path: String,
    pub(super) members: Members,
    pub(super) ignored: Ignored,
    pub(super) only: Only,
    pub(super) rules: Vec<Rules>,
    pub(super) groups: Groups,
}

/// The member that says the method.
pub(super) const METHOD: &str = "quant_method";
/// The member of ModelOpt that says the algorithm.
pub(super) const ALGORITHM: &str = "quant_algo";

impl Description {
    pub(super) fn read(document: &str, found: Found, allowance: &mut Allowance) -> Self {
        let Found { path, members } = found;
        Self {
            document: document.to_owned(),
            ignored: Ignored::read(&members, allowance),
            only: Only::read(&members, allowance),
            rules: Rules::read(&members, &path, allowance),
            groups: Groups::read(&members, allowance),
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

    /// The text of a member; other types are a problem that is told.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.members.get(key)? {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The algorithm that ModelOpt's rule for a module of exactly this name says.
    pub(super) fn algorithm_of(&self, module: &str) -> Option<&str> {
        match self.members.get("quantized_layers")?.members()?.get(module)?.members()?.get(ALGORITHM)? {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes that are looked at, at most, to ask for a module.
    pub(super) fn work(&self, module: &str) -> u64 {
        let rules = self.rules.iter().map(|rules| rules.work(module));
        let lists = [1, self.ignored.work(module), self.only.work(module), self.groups.work(module)];
        rules.chain(lists).fold(0, u64::saturating_add)
    }

    /// Whether it is MLX's.
    pub(super) fn is_mlx(&self) -> bool {
        rules::is_mlx(&self.members, &self.path)
    }

    /// A member that chooses modules, where the description has one: an override of MLX, or one of another method.
    pub(super) fn choice<'a>(&'a self, other: &'a Self) -> Option<(&'a str, Option<&'a Json>)> {
        let is_choice = |key: &str, value: &Json| match self.is_mlx() {
            true => rules::is_mlx_rule(key, value),
            false => OF_OTHERS.contains(&key) && says_something(value),
        };
        let mut choices = self.members.iter().filter(|(key, value)| is_choice(key, value));
        choices
            .find(|(key, value)| other.members.get(key) != Some(*value))
            .map(|(key, _)| (key, other.members.get(key)))
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        known::check(&self.members, self.place(), &mut problems);
        if self.is_mlx() {
            let others = OF_OTHERS.into_iter().filter(|key| self.members.get(key).is_some_and(says_something));
            let why =
                |key| format!("{} is not a member of MLX's quantisation, and would change it", self.place().with(key));
            problems.extend(others.map(why));
        }
        problems
    }

    /// What it tells that no output would: weights that are rotated or thinned out besides being quantised. The name of the
    /// member, and what to say about it.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&'static str, String)> {
        let transforms = ["transform_config", "rotation_config", "spinquant_config"].into_iter();
        let transformed = transforms.filter(|key| self.members.get(key).is_some_and(says_something)).map(|key| {
            (key, format!("{}: the weights are transformed besides being quantised, which is not undone", self.place()))
        });
        let sparsity = self.members.get("sparsity_config").filter(|value| says_something(value));
        let sparse = sparsity.and_then(|config| {
            let format = config.members()?.get("format");
            let is_dense = matches!(format, Some(Json::Text(format)) if format == "dense");
            let found = format.map_or_else(|| "none".to_owned(), Json::brief);
            let text = format!("{}: the format of the sparsity is {found}; dense weights are read", self.place());
            (!is_dense).then_some(("sparsity_config", text))
        });
        let experts = self.members.get("moe_sparsity_config").filter(|value| says_something(value)).map(|_| {
            ("moe_sparsity_config", format!("{}: experts are left out, and nothing else tells which", self.place()))
        });
        transformed.chain(sparse).chain(experts)
    }

    /// Its telling members, for people.
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
        // The usual place needs no name.
        let path = if self.path == "quantization_config" { "" } else { self.path.as_str() };
        let place = Place { path, ..self.place() };
        let line = |place: Place<'_>, text: String| printable(&format!("{place}: {text}"), MAX_LINE_CHARS);
        let mut lines = vec![line(place, telling(&self.members, &KEYS))];
        for group in self.groups.iter() {
            if let Some(weights) = self.group(&group.name).and_then(|group| group.get("weights")?.members()) {
                lines.push(line(place.with(Groups::KEY).with(&group.name), telling(weights, &WEIGHT_KEYS)));
            }
        }
        for rules in self.rules.iter().filter(|rules| rules.len() > 0) {
            lines.push(line(place.with(rules.key), format!("{} rules for some modules", rules.len())));
        }
        lines
    }

    /// The members of a group.
    pub(super) fn group(&self, name: &str) -> Option<&Members> {
        self.members.get(Groups::KEY)?.members()?.get(name)?.members()
    }
}

/// Members by which other methods choose modules. MLX has none of them: it names modules beside its own members.
const OF_OTHERS: [&str; 10] = [
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

/// The arguments of weights that say what they are.
pub(super) const WEIGHT_KEYS: [&str; 6] =
    ["num_bits", "type", "strategy", "group_size", "block_structure", "symmetric"];

/// These members with their values.
pub(super) fn telling(members: &Members, keys: &[&str]) -> String {
    let said = |key: &&str| Some(format!("{key} {}", members.get(key).filter(|value| **value != Json::Null)?.brief()));
    keys.iter().filter_map(said).collect::<Vec<_>>().join(", ")
}

/// Whether a value is more than an empty frame.
fn says_something(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Object(members) => members.iter().any(|(_, value)| says_something(value)),
        Json::List(items) => items.iter().any(says_something),
        Json::Flag(flag) => *flag,
        Json::Text(text) => !text.is_empty(),
        Json::Number(_) => true,
    }
}
