//! The `config_groups` of compressed-tensors: arguments, and the modules they apply to.
//!
//! A target is a module's name, `re:` and an expression, or a class of modules like `Linear`. Among several groups that
//! match a module, a name takes precedence over an expression and both over a class. Files do not record classes: a
//! class matches every module that nothing else decides.

use std::collections::HashMap;

use super::ignored::PatternBudget;
use super::json::{Json, Members};
use super::pattern::ModulePattern;
use super::pattern_set::PatternSet;

/// One group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    /// Whether it applies to a class of modules, or to all modules.
    has_class: bool,
    expressions: PatternSet,
}

/// The groups of one description, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Groups by the module they name.
    named: HashMap<String, Vec<usize>>,
    /// Why a target is invalid, so that it is undecided which modules it matches.
    problem: Option<String>,
}

/// How a group matches a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Name,
    Expression,
    Class,
}

impl Groups {
    pub(super) const KEY: &'static str = "config_groups";

    pub(super) fn read(members: &Members, budget: &mut PatternBudget) -> Self {
        let mut all = Self::default();
        let Some(groups) = members.get(Self::KEY).and_then(Json::members) else { return all };
        for (name, value) in groups.iter() {
            let targets = match value {
                Json::Object(group) => group.get("targets"),
                // A preset scheme by name.
                other => Some(other),
            };
            let mut group = Group { name: name.to_owned(), has_class: false, expressions: PatternSet::default() };
            match targets {
                Some(Json::List(targets)) => {
                    let texts = targets.iter().filter_map(|target| match target {
                        Json::Text(target) => Some(target.as_str()),
                        _ => None,
                    });
                    for target in texts {
                        all.add(target, &mut group, budget);
                    }
                }
                _ => group.has_class = true,
            }
            all.groups.push(group);
        }
        all
    }

    fn add(&mut self, target: &str, group: &mut Group, budget: &mut PatternBudget) {
        if is_class(target) {
            group.has_class = true;
        } else if !target.starts_with("re:") {
            self.named.entry(target.to_owned()).or_default().push(self.groups.len());
        } else if let Err(why) = budget.add(ModulePattern::compressed_tensors, target, &mut group.expressions) {
            self.problem.get_or_insert_with(|| format!("{}: {why}", group.name));
        }
    }

    /// The groups that match a module in the most specific way.
    pub(super) fn find(&self, module: &str) -> Option<(Target, Vec<&Group>)> {
        let named: Vec<_> = self.named.get(module).into_iter().flatten().map(|&group| &self.groups[group]).collect();
        let all = |means: fn(&Group, &str) -> bool| -> Vec<_> {
            self.groups.iter().filter(|group| means(group, module)).collect()
        };
        let ranks = [
            (Target::Name, named),
            (Target::Expression, all(|group, module| group.expressions.first(module).is_some())),
            (Target::Class, all(|group, _| group.has_class)),
        ];
        ranks.into_iter().find(|(_, groups)| !groups.is_empty())
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        self.groups
            .iter()
            .map(|group| group.expressions.match_cost(module))
            .fold(self.groups.len() as u64, u64::saturating_add)
    }

    /// The groups that match none of these modules; groups for classes are never listed.
    pub(super) fn unused(&self, modules: &[&str]) -> Vec<&str> {
        let mut is_used: Vec<_> = self.groups.iter().map(|group| group.has_class).collect();
        for &module in modules {
            self.named.get(module).into_iter().flatten().for_each(|&group| is_used[group] = true);
            for (used, group) in is_used.iter_mut().zip(&self.groups) {
                *used = *used || group.expressions.first(module).is_some();
            }
        }
        let unused = self.groups.iter().zip(is_used).filter(|(_, used)| !used);
        unused.map(|(group, _)| group.name.as_str()).collect()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }
}

/// Whether a target is a class name: it starts with a capital letter and has no dots.
fn is_class(target: &str) -> bool {
    target.starts_with(|c: char| c.is_ascii_uppercase()) && !target.contains(['.', ':'])
}
