//! Overrides: what a description says about some modules only.
//!
//! | member | tool | its keys | its values |
//! |---|---|---|---|
//! | `dynamic` | GPTQModel | `+:` or `-:` and an expression; the first that matches counts | arguments; `-:` leaves the module as it is |
//! | `extra_config` | AutoRound | a module's name, or an expression; names count first | arguments |
//! | `quantized_layers` | ModelOpt | modules | arguments |
//! | the description itself | MLX | a module's name | arguments, or `false` for a module that is left as it is |

use super::ignored::Allowance;
use super::json::{Json, Members};
use super::known::is_known;
use super::pattern::{Dialect, ModulePattern};
use super::pattern_set::PatternSet;

/// The overrides under one member.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The member; empty for the description itself.
    pub(super) key: &'static str,
    /// Whether a name counts before an expression that stands in front of it.
    names_first: bool,
    set: PatternSet,
    /// The key of each pattern of the set.
    keys: Vec<String>,
    /// Why a rule cannot be read, so that nobody knows which modules it is for.
    problem: Option<String>,
}

/// What an override says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect<'a> {
    /// These arguments in place of the general ones.
    Args(&'a Members),
    /// The module is left as it is.
    Left,
}

impl Rules {
    /// All overrides of a description.
    pub(super) fn read(members: &Members, path: &str, allowance: &mut Allowance) -> Vec<Self> {
        let families: [(&'static str, Dialect, bool); 3] = [
            ("dynamic", |key| ModulePattern::gptqmodel(unsigned(key)), false),
            ("extra_config", ModulePattern::auto_round, true),
            ("quantized_layers", ModulePattern::subtree, false),
        ];
        let mut all = Vec::new();
        for (key, dialect, names_first) in families {
            if let Some(rules) = members.get(key).and_then(Json::members) {
                let keys = rules.iter().filter(|(_, rule)| rule.members().is_some()).map(|(key, _)| key);
                all.push(Self::of(key, dialect, names_first, keys, allowance));
            }
        }
        if is_mlx(members, path) {
            let keys = members.iter().filter(|(key, value)| is_mlx_rule(key, value)).map(|(key, _)| key);
            all.push(Self::of("", ModulePattern::exact, false, keys, allowance));
        }
        all
    }

    fn of<'a>(
        key: &'static str,
        dialect: Dialect,
        names_first: bool,
        keys: impl Iterator<Item = &'a str>,
        allowance: &mut Allowance,
    ) -> Self {
        let mut rules = Self { key, names_first, set: PatternSet::default(), keys: Vec::new(), problem: None };
        for rule in keys {
            match allowance.add(dialect, rule, &mut rules.set) {
                Ok(()) => rules.keys.push(rule.to_owned()),
                Err(why) => drop(rules.problem.get_or_insert(why)),
            }
        }
        rules
    }

    /// The rule for a module: its key, and what it says. `members` are those of the description.
    pub(super) fn find<'a>(&'a self, module: &str, members: &'a Members) -> Option<(&'a str, Effect<'a>)> {
        let named = self.names_first.then(|| self.set.named(module)).flatten();
        let key = self.keys.get(named.or_else(|| self.set.first(module))?)?;
        let rules = if self.key.is_empty() { members } else { members.get(self.key)?.members()? };
        let effect = match rules.get(key)? {
            Json::Flag(false) => Effect::Left,
            _ if self.key == "dynamic" && key.starts_with("-:") => Effect::Left,
            Json::Object(args) => Effect::Args(args),
            _ => return None,
        };
        Some((key, effect))
    }

    /// The bytes that are looked at, at most, to ask for a module.
    pub(super) fn work(&self, module: &str) -> u64 {
        self.set.work(module)
    }

    /// Why it is open whether a rule concerns a module.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// A rule of GPTQModel without its sign.
fn unsigned(rule: &str) -> &str {
    rule.strip_prefix("+:").or_else(|| rule.strip_prefix("-:")).unwrap_or(rule)
}

/// Whether a member of MLX's description is an override for a module.
pub(super) fn is_mlx_rule(key: &str, value: &Json) -> bool {
    matches!(value, Json::Object(_) | Json::Flag(_)) && !is_known(key)
}

/// Whether a description is MLX's, which names no method and puts overrides beside its own members.
pub(super) fn is_mlx(members: &Members, path: &str) -> bool {
    let has = |key| members.get(key).is_some_and(|value| *value != Json::Null);
    !path.is_empty()
        && has("bits")
        && has("group_size")
        && !["quant_method", "quant_algo", "desc_act"].into_iter().any(has)
}
