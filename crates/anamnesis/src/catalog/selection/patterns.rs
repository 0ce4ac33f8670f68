//! Include and exclude patterns. Patterns without wildcards are looked up in a set, so that lists of all names of a
//! large model stay fast.

use std::collections::{BTreeSet, HashSet};

use super::glob::Glob;
use crate::error::{Request, Result};

/// Include and exclude patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamePatterns {
    /// Names that are included literally.
    names: BTreeSet<String>,
    include: Patterns,
    exclude: Patterns,
}

impl NamePatterns {
    pub(crate) const fn new() -> Self {
        Self { names: BTreeSet::new(), include: Patterns::new(), exclude: Patterns::new() }
    }

    pub(crate) fn include(&mut self, pattern: &str) -> Result<()> {
        self.include.add(Glob::parse(pattern)?);
        Ok(())
    }

    pub(super) fn include_name(&mut self, name: String) {
        self.names.insert(name);
    }

    pub(crate) fn exclude(&mut self, pattern: &str) -> Result<()> {
        self.exclude.add(Glob::parse(pattern)?);
        Ok(())
    }

    pub(crate) fn takes(&self, name: &str) -> bool {
        (self.takes_all() || self.names.contains(name) || self.include.matches(name)) && !self.excludes(name)
    }

    /// Whether there are no include patterns, so that everything is included.
    pub(crate) fn takes_all(&self) -> bool {
        self.names.is_empty() && self.include.globs.is_empty()
    }

    pub(crate) fn excludes(&self, name: &str) -> bool {
        self.exclude.matches(name)
    }

    /// Refuses a pattern that matches no name.
    pub(crate) fn check_used(&self, names: &[&str]) -> Result<()> {
        let known: HashSet<&str> = names.iter().copied().collect();
        if let Some(name) = self.names.iter().find(|name| !known.contains(name.as_str())) {
            return Err(Request::UnknownTensor { name: name.clone() }.into());
        }
        let is_unused = |glob: &&Glob| match glob.only_name() {
            Some(name) => !known.contains(name),
            None => !names.iter().any(|name| glob.matches(name)),
        };
        match self.include.globs.iter().chain(&self.exclude.globs).find(is_unused) {
            None => Ok(()),
            Some(glob) => Err(Request::UnusedPattern { pattern: glob.text().to_owned() }.into()),
        }
    }
}

/// A set of patterns, of which one has to match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Patterns {
    /// In the given order.
    globs: Vec<Glob>,
    /// Patterns without wildcards.
    exact: BTreeSet<String>,
    /// Indices of the patterns with wildcards.
    wildcards: Vec<usize>,
}

impl Patterns {
    const fn new() -> Self {
        Self { globs: Vec::new(), exact: BTreeSet::new(), wildcards: Vec::new() }
    }

    fn add(&mut self, glob: Glob) {
        match glob.only_name() {
            Some(name) => drop(self.exact.insert(name.to_owned())),
            None => self.wildcards.push(self.globs.len()),
        }
        self.globs.push(glob);
    }

    fn matches(&self, name: &str) -> bool {
        let wildcards = || self.wildcards.iter().filter_map(|&index| self.globs.get(index));
        self.exact.contains(name) || wildcards().any(|glob| glob.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns_are_combined_and_exclusion_wins() {
        let mut patterns = NamePatterns::new();
        for pattern in ["a.weight", "b.*", "c.[w]"] {
            patterns.include(pattern).unwrap();
        }
        patterns.exclude("b.bias").unwrap();
        for (name, is_taken) in [
            ("a.weight", true),
            ("a.weights", false),
            ("b.weight", true),
            ("b.bias", false),
            ("c.w", true),
            ("", false),
        ] {
            assert_eq!(patterns.takes(name), is_taken, "{name}");
        }
    }

    #[test]
    fn as_many_names_as_tensors_are_looked_up() {
        let mut patterns = NamePatterns::new();
        let names: Vec<String> = (0..61_000).map(|index| format!("model.layers.{index}.weight")).collect();
        for name in &names[..60_000] {
            patterns.include(name).unwrap();
        }
        let started = std::time::Instant::now();
        patterns.check_used(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(names.iter().filter(|name| patterns.takes(name)).count(), 60_000);
        // Matching each pattern would take minutes.
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn the_first_unused_pattern_is_named() {
        let mut patterns = NamePatterns::new();
        for pattern in ["a", "b*", "missing", "also*missing"] {
            patterns.include(pattern).unwrap();
        }
        patterns.exclude("gone").unwrap();
        let unused = |names: &[&str]| match patterns.check_used(names) {
            Err(crate::AnamnesisError::Request(Request::UnusedPattern { pattern })) => pattern,
            other => panic!("{other:?}"),
        };
        assert_eq!(unused(&["a", "b"]), "missing");
        assert_eq!(unused(&["a", "b", "missing"]), "also*missing");
        assert_eq!(unused(&["a", "b", "missing", "also missing"]), "gone");
        assert_eq!(unused(&[]), "a");
    }
}
