//! The lists of modules that a description leaves as they are.

use super::expression::MAX_AUTOMATON_BYTES;
use super::json::{Json, Members};
use super::pattern::{Dialect, ModulePattern};
use super::pattern_set::PatternSet;
use super::place::Place;
use crate::error::AnamnesisError;

/// Most entries of all lists together.
const MAX_ENTRIES: usize = 1 << 16;
/// Most expressions among them, and among rules and targets.
const MAX_EXPRESSIONS: usize = 1 << 10;

/// Most bytes of the automata of all expressions together.
const MAX_AUTOMATA_BYTES: usize = 4 << 20;

/// Bytes of an expression that is no longer than most.
const USUAL_EXPRESSION_BYTES: usize = 64;

/// What reading patterns may still cost, over all descriptions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    entries: usize,
    expressions: usize,
    automata_bytes: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, expressions: MAX_EXPRESSIONS, automata_bytes: MAX_AUTOMATA_BYTES }
    }
}

impl Allowance {
    /// Reads an entry into a set. The error says why it cannot be.
    pub(super) fn add(&mut self, dialect: Dialect, entry: &str, set: &mut PatternSet) -> Result<(), String> {
        let before = set.tried();
        if self.expressions == 0 {
            return Err(format!("there are more than {MAX_EXPRESSIONS} expressions"));
        }
        if self.automata_bytes == 0 {
            return Err(format!(
                "the expressions are too complex together: they take more than {MAX_AUTOMATA_BYTES} bytes"
            ));
        }
        match dialect(entry) {
            Ok(pattern) => {
                // Each state of a long expression's automaton takes as much longer to find.
                let cost = pattern.automaton_bytes() * entry.len().div_ceil(USUAL_EXPRESSION_BYTES);
                self.automata_bytes = self.automata_bytes.saturating_sub(cost);
                set.insert(pattern);
                self.expressions -= set.tried() - before;
                Ok(())
            }
            Err(error) => {
                // It may have taken as long as one that can be used.
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
    /// The list and the text of each pattern of the set.
    entries: Vec<(&'static str, String)>,
    /// The first entry that cannot be read, and why. It means no module.
    problem: Option<String>,
}

impl Ignored {
    pub(super) fn read(members: &Members, allowance: &mut Allowance) -> Self {
        let is_text = |key| matches!(members.get(key), Some(Json::Text(_)));
        // ModelOpt calls its list `ignore` where it writes config.json, and `exclude_modules` in its own file.
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
                if allowance.entries == 0 {
                    ignored.problem.get_or_insert_with(|| format!("{key}: there are more than {MAX_ENTRIES} entries"));
                    return ignored;
                }
                allowance.entries -= 1;
                match allowance.add(dialect, entry, &mut ignored.set) {
                    Ok(()) => ignored.entries.push((key, entry.clone())),
                    Err(why) => drop(ignored.problem.get_or_insert_with(|| format!("{key}: {why}"))),
                }
            }
        }
        ignored
    }

    /// The entry that means the module, with its list.
    pub(super) fn find(&self, module: &str) -> Option<(&'static str, &str)> {
        self.entries.get(self.set.first(module)?).map(|(list, entry)| (*list, entry.as_str()))
    }

    /// The bytes that are looked at, at most, to ask for a module.
    pub(super) fn work(&self, module: &str) -> u64 {
        self.set.work(module)
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// The modules of a block that alone are quantised, by the ends of their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Only {
    set: PatternSet,
    is_there: bool,
}

impl Only {
    pub(super) const KEY: &'static str = "modules_in_block_to_quantize";

    pub(super) fn read(members: &Members, allowance: &mut Allowance) -> Self {
        let mut only = Self::default();
        let mut pending: Vec<_> = members.get(Self::KEY).into_iter().collect();
        while let Some(value) = pending.pop() {
            match value {
                Json::List(items) => pending.extend(items),
                Json::Text(end) => only.is_there |= allowance.add(ModulePattern::end, end, &mut only.set).is_ok(),
                _ => {}
            }
        }
        only
    }

    /// The bytes that are looked at, at most, to ask for a module.
    pub(super) fn work(&self, module: &str) -> u64 {
        self.set.work(module)
    }

    /// Whether the module is none of them.
    pub(super) fn leaves_out(&self, module: &str) -> bool {
        self.is_there && self.set.first(module).is_none()
    }
}

/// What leaves a module as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left<'a> {
    /// The list or the rule.
    pub(crate) place: Place<'a>,
    /// Its entry; empty where the list has none for the module.
    pub(crate) entry: &'a str,
    /// Whether a rule about which modules are quantised says so, and not a list of names to pass over.
    pub(crate) is_rule: bool,
}

impl std::fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry {
            "" => write!(f, "{} leaves it out", self.place),
            entry => write!(f, "{} leaves it as it is by {}", self.place, crate::error::quoted(entry)),
        }
    }
}
