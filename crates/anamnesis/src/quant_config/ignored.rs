//! The lists of modules that a description excludes from quantisation.

use super::expression::MAX_AUTOMATON_BYTES;
use super::json::{Json, Members};
use super::pattern::{Dialect, ModulePattern};
use super::pattern_set::PatternSet;
use super::place::Place;
use crate::error::AnamnesisError;

/// Most entries of all lists together.
const MAX_ENTRIES: usize = 1 << 16;
/// Most expressions in lists, rules and targets together.
const MAX_EXPRESSIONS: usize = 1 << 10;

/// Most bytes of the automata of all expressions together.
const MAX_AUTOMATA_BYTES: usize = 4 << 20;

/// The usual length of an expression, in bytes.
const USUAL_EXPRESSION_BYTES: usize = 64;

/// What remains of the limits on patterns, over all descriptions.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternBudget {
    entries: usize,
    expressions: usize,
    automata_bytes: usize,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, expressions: MAX_EXPRESSIONS, automata_bytes: MAX_AUTOMATA_BYTES }
    }
}

impl PatternBudget {
    /// Parses an entry into a set. The error explains why it is invalid.
    pub(super) fn add(&mut self, dialect: Dialect, entry: &str, set: &mut PatternSet) -> Result<(), String> {
        let before = set.expressions();
        if self.expressions == 0 {
            return Err(format!("there are more than {MAX_EXPRESSIONS} expressions"));
        }
        if self.automata_bytes == 0 {
            return Err(format!(
                "the expressions are too complex: their automata take more than {MAX_AUTOMATA_BYTES} bytes"
            ));
        }
        match dialect(entry) {
            Ok(pattern) => {
                // States of long expressions take proportionally longer to build.
                let cost = pattern.automaton_bytes() * entry.len().div_ceil(USUAL_EXPRESSION_BYTES);
                self.automata_bytes = self.automata_bytes.saturating_sub(cost);
                set.insert(pattern);
                self.expressions -= set.expressions() - before;
                Ok(())
            }
            Err(error) => {
                // A rejected expression may have cost as much as an accepted one.
                self.expressions -= 1;
                self.automata_bytes = self.automata_bytes.saturating_sub(MAX_AUTOMATON_BYTES);
                Err(match error {
                    AnamnesisError::Parse { reason } => reason,
                    other => other.to_string(),
                })
            }
        }
    }
}

/// The ignore lists of one description, read once.
#[derive(Debug, Clone, Default)]
pub(super) struct Ignored {
    set: PatternSet,
    /// The list and the text of each pattern in the set.
    entries: Vec<(&'static str, String)>,
    /// The first invalid entry, and why. It matches no module.
    problem: Option<String>,
}

impl Ignored {
    pub(super) fn read(members: &Members, budget: &mut PatternBudget) -> Self {
        let is_text = |key| matches!(members.get(key), Some(Json::Text(_)));
        // ModelOpt writes the list as `ignore` in config.json and as `exclude_modules` in its own file.
        let is_modelopt = match members.get("quant_method") {
            Some(Json::Text(method)) => method.starts_with("modelopt"),
            _ => is_text("quant_algo"),
        };
        let ignore: Dialect = if is_modelopt { ModulePattern::modelopt } else { ModulePattern::compressed_tensors };
        let lists: [(&'static str, Dialect); 5] = [
            ("ignore", ignore),
            ("exclude_modules", ModulePattern::modelopt),
            ("modules_to_not_convert", ModulePattern::transformers),
            ("ignored_layers", ModulePattern::transformers),
            ("llm_int8_skip_modules", ModulePattern::transformers),
        ];
        let mut ignored = Self::default();
        for (key, dialect) in lists {
            let Some(Json::List(entries)) = members.get(key) else { continue };
            for entry in entries {
                let Json::Text(entry) = entry else { continue };
                if budget.entries == 0 {
                    ignored.problem.get_or_insert_with(|| format!("{key}: there are more than {MAX_ENTRIES} entries"));
                    return ignored;
                }
                budget.entries -= 1;
                match budget.add(dialect, entry, &mut ignored.set) {
                    Ok(()) => ignored.entries.push((key, entry.clone())),
                    Err(why) => drop(ignored.problem.get_or_insert_with(|| format!("{key}: {why}"))),
                }
            }
        }
        ignored
    }

    /// The first entry that matches the module, with its list.
    pub(super) fn find(&self, module: &str) -> Option<(&'static str, &str)> {
        self.entries.get(self.set.first(module)?).map(|(list, entry)| (*list, entry.as_str()))
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        self.set.match_cost(module)
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// `modules_in_block_to_quantize`: suffixes of the only modules that are quantised.
#[derive(Debug, Clone, Default)]
pub(super) struct Inclusions {
    set: PatternSet,
    has_entries: bool,
}

impl Inclusions {
    pub(super) const KEY: &'static str = "modules_in_block_to_quantize";

    pub(super) fn read(members: &Members, budget: &mut PatternBudget) -> Self {
        let mut only = Self::default();
        let mut pending: Vec<_> = members.get(Self::KEY).into_iter().collect();
        while let Some(value) = pending.pop() {
            match value {
                Json::List(items) => pending.extend(items),
                Json::Text(end) => only.has_entries |= budget.add(ModulePattern::end, end, &mut only.set).is_ok(),
                _ => {}
            }
        }
        only
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        self.set.match_cost(module)
    }

    /// Whether the list exists and does not match the module.
    pub(super) fn excludes(&self, module: &str) -> bool {
        self.has_entries && self.set.first(module).is_none()
    }
}

/// Why a module is not quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exclusion<'a> {
    /// The list or the rule.
    pub(crate) place: Place<'a>,
    /// The matching entry; empty if the module is missing from a list of inclusions.
    pub(crate) entry: &'a str,
    /// Whether this is a rule or a list of inclusions, and not a list of excluded names.
    pub(crate) is_rule: bool,
}

impl std::fmt::Display for Exclusion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry {
            "" => write!(f, "{} does not include it", self.place),
            entry => write!(f, "{} excludes it by {}", self.place, crate::error::quoted(entry)),
        }
    }
}
