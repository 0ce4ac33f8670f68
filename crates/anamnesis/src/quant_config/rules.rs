//! Overrides of the options of single modules.
//!
//! | member | tool | its keys | its values |
//! |---|---|---|---|
//! | `dynamic` | GPTQModel | `+:` or `-:` and an expression; the first that matches applies | arguments; `-:` excludes the module |
//! | `extra_config` | AutoRound | a module's name, or an expression; names take precedence | arguments |
//! | `quantized_layers` | ModelOpt | modules | arguments |
//! | `module_quant_configs` | Gemma's quantisation | expressions, searched in a module's name; the first that matches applies | arguments |
//! | the description itself | MLX | a module's name | arguments, or `false` to exclude the module |

use super::ignored::PatternBudget;
use super::json::{Json, Members};
use super::known::is_known;
use super::pattern::{Dialect, ModulePattern};
use super::pattern_set::PatternSet;

/// The overrides under one member.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The member; empty if overrides are members of the description itself.
    pub(super) key: &'static str,
    /// Whether a name takes precedence over an earlier expression.
    names_first: bool,
    set: PatternSet,
    /// The key of each pattern in the set.
    keys: Vec<String>,
    /// Why a rule is invalid, so that it is undecided which modules it matches.
    problem: Option<String>,
}

/// The effect of an override.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect<'a> {
    /// Arguments that take precedence over the general ones.
    Args(&'a Members),
    /// The module is not quantised.
    Exclude,
}

impl Rules {
    /// All overrides of a description.
    pub(super) fn read(members: &Members, path: &str, budget: &mut PatternBudget) -> Vec<Self> {
        let families: [(&'static str, Dialect, bool); 4] = [
            ("dynamic", |key| ModulePattern::gptqmodel(unsigned(key)), false),
            ("extra_config", ModulePattern::auto_round, true),
            ("quantized_layers", ModulePattern::subtree, false),
            ("module_quant_configs", ModulePattern::searched, false),
        ];
        let mut all = Vec::new();
        for (key, dialect, names_first) in families {
            if let Some(rules) = members.get(key).and_then(Json::members) {
                let keys = rules.iter().filter(|(_, rule)| rule.members().is_some()).map(|(key, _)| key);
                all.push(Self::of(key, dialect, names_first, keys, budget));
            }
        }
        if is_mlx(members, path) {
            let keys = members.iter().filter(|(key, value)| is_mlx_rule(key, value)).map(|(key, _)| key);
            all.push(Self::of("", ModulePattern::exact, false, keys, budget));
        }
        all
    }

    fn of<'a>(
        key: &'static str,
        dialect: Dialect,
        names_first: bool,
        keys: impl Iterator<Item = &'a str>,
        budget: &mut PatternBudget,
    ) -> Self {
        let mut rules = Self { key, names_first, set: PatternSet::default(), keys: Vec::new(), problem: None };
        for rule in keys {
            match budget.add(dialect, rule, &mut rules.set) {
                Ok(()) => rules.keys.push(rule.to_owned()),
                Err(why) => drop(rules.problem.get_or_insert(why)),
            }
        }
        rules
    }

    /// The rule that matches a module: its key and effect. `members` are those of the description.
    pub(super) fn find<'a>(&'a self, module: &str, members: &'a Members) -> Option<(&'a str, Effect<'a>)> {
        let named = self.names_first.then(|| self.set.named(module)).flatten();
        let key = self.keys.get(named.or_else(|| self.set.first(module))?)?;
        let rules = if self.key.is_empty() { members } else { members.get(self.key)?.members()? };
        let effect = match rules.get(key)? {
            Json::Flag(false) => Effect::Exclude,
            _ if self.key == "dynamic" && key.starts_with("-:") => Effect::Exclude,
            Json::Object(args) => Effect::Args(args),
            _ => return None,
        };
        Some((key, effect))
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        self.set.match_cost(module)
    }

    /// Why it is undecided whether a rule matches a module.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// A rule of GPTQModel without its `+:` or `-:`.
fn unsigned(rule: &str) -> &str {
    rule.strip_prefix("+:").or_else(|| rule.strip_prefix("-:")).unwrap_or(rule)
}

/// Whether a member of a description of MLX is an override.
pub(super) fn is_mlx_rule(key: &str, value: &Json) -> bool {
    matches!(value, Json::Object(_) | Json::Flag(_)) && !is_known(key)
}

/// Whether a description is in the form of MLX, which has no method and mixes overrides with its own members.
pub(super) fn is_mlx(members: &Members, path: &str) -> bool {
    let has = |key| members.get(key).is_some_and(|value| *value != Json::Null);
    !path.is_empty()
        && has("bits")
        && has("group_size")
        && !["quant_method", "quant_algo", "desc_act"].into_iter().any(has)
}
