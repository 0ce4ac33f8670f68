//! A set of patterns that finds the first match in time independent of their number: names, prefixes and suffixes are
//! looked up in hash tables; only the few expressions are tried one by one.

use std::collections::HashMap;

use super::pattern::{Matcher, ModulePattern};

/// Patterns in order.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternSet {
    count: usize,
    names: HashMap<String, usize>,
    subtrees: HashMap<String, usize>,
    starts: Affixes,
    ends: Affixes,
    keys: PlainKeys,
    /// Patterns that must be tried one by one.
    expressions: Vec<(usize, ModulePattern)>,
}

impl PatternSet {
    /// Appends a pattern.
    pub(super) fn insert(&mut self, pattern: ModulePattern) {
        let place = self.count;
        self.count += 1;
        match pattern.0 {
            Matcher::Exact(name) => note(&mut self.names, name, place),
            Matcher::Subtree(name) if name.is_empty() => {}
            Matcher::Subtree(name) => note(&mut self.subtrees, name, place),
            Matcher::Start(start) => self.starts.insert(start, place),
            Matcher::End(end) => self.ends.insert(end, place),
            Matcher::PlainKey(key) => {
                self.ends.insert(key.clone(), place);
                self.keys.insert(key, place);
            }
            matcher @ (Matcher::Expression(_) | Matcher::Key { .. }) => {
                self.expressions.push((place, ModulePattern(matcher)));
            }
        }
    }

    /// The number of patterns that are tried one by one.
    pub(super) fn expressions(&self) -> usize {
        self.expressions.len()
    }

    /// The bytes examined, at most, to match a module.
    pub(super) fn match_cost(&self, module: &str) -> u64 {
        let length = module.len();
        let dots = module.bytes().filter(|&byte| byte == b'.').count();
        let affixes = |affixes: &Affixes| affixes.lengths.iter().take_while(|&&affix| affix <= length).sum::<usize>();
        let ancestors = if self.subtrees.is_empty() { 0 } else { dots };
        let passes = self.expressions.len() + ancestors + self.keys.passes(module, dots);
        let affixes = affixes(&self.starts) + affixes(&self.ends);
        (passes as u64).saturating_mul(length as u64).saturating_add(affixes as u64)
    }

    /// The index of the pattern that is exactly this name.
    pub(super) fn named(&self, module: &str) -> Option<usize> {
        self.names.get(module).copied()
    }

    /// The index of the first pattern that matches the module; among several ancestors, the nearest one.
    pub(super) fn first(&self, module: &str) -> Option<usize> {
        let found = [
            self.named(module),
            ancestors(module).find_map(|name| self.subtrees.get(name).copied()),
            self.starts.first(|length| module.get(..length), module.len()),
            self.ends.first(|length| module.get(module.len() - length..), module.len()),
            self.keys.first(module),
        ];
        let looked_up = found.into_iter().flatten().min();
        let earlier = self.expressions.iter().take_while(|(place, _)| looked_up.is_none_or(|found| *place < found));
        earlier
            .map(|(place, pattern)| (place, pattern))
            .find(|(_, pattern)| pattern.matches(module))
            .map_or(looked_up, |(place, _)| Some(*place))
    }
}

/// Inserts the index of a text unless it has one.
fn note(places: &mut HashMap<String, usize>, text: String, place: usize) {
    places.entry(text).or_insert(place);
}

/// The module and its ancestors, the nearest first.
fn ancestors(module: &str) -> impl Iterator<Item = &str> {
    let dots = module.rmatch_indices('.').map(|(at, _)| &module[..at]);
    std::iter::once(module).chain(dots)
}

/// A set of prefixes or suffixes.
#[derive(Debug, Clone, Default)]
struct Affixes {
    /// The distinct lengths in ascending order.
    lengths: Vec<usize>,
    places: HashMap<String, usize>,
}

impl Affixes {
    fn insert(&mut self, text: String, place: usize) {
        if let Err(place) = self.lengths.binary_search(&text.len()) {
            self.lengths.insert(place, text.len());
        }
        note(&mut self.places, text, place);
    }

    /// The first of the affixes up to `longest` bytes; `part` returns the affix of a given length.
    fn first<'a>(&self, part: impl Fn(usize) -> Option<&'a str>, longest: usize) -> Option<usize> {
        let lengths = self.lengths.iter().take_while(|length| **length <= longest);
        lengths.filter_map(|&length| self.places.get(part(length)?).copied()).min()
    }
}

/// Keys of letters, digits and dots, anchored at the start and ending at a boundary, in which a dot matches any
/// character.
#[derive(Debug, Clone, Default)]
struct PlainKeys {
    places: HashMap<String, usize>,
    /// By length in characters: keys grouped by their dot positions, so that a name with dots put at these positions
    /// can be looked up.
    shapes: HashMap<usize, Vec<DotPositions>>,
    shape_count: usize,
    /// Whether a key ends in a dot.
    has_dot_at_end: bool,
}

#[derive(Debug, Clone)]
struct DotPositions {
    dots: Vec<usize>,
    places: HashMap<String, usize>,
}

/// Most groups of dot positions; dots of further keys match only dots. The names of one model have few.
const MAX_SHAPES: usize = 1 << 10;

impl PlainKeys {
    fn insert(&mut self, key: String, place: usize) {
        // A last dot is a boundary and matches only a dot.
        let stem = key.strip_suffix('.').unwrap_or(&key);
        self.has_dot_at_end |= key.ends_with('.');
        let dots: Vec<_> = stem.match_indices('.').map(|(at, _)| at).collect();
        if !dots.is_empty() {
            let shapes = self.shapes.entry(key.len()).or_default();
            match shapes.iter_mut().find(|shape| shape.dots == dots) {
                Some(shape) => note(&mut shape.places, key.clone(), place),
                None if self.shape_count < MAX_SHAPES => {
                    self.shape_count += 1;
                    shapes.push(DotPositions { dots, places: HashMap::from([(key.clone(), place)]) });
                }
                None => {}
            }
        }
        note(&mut self.places, key, place);
    }

    fn first(&self, module: &str) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let dots = module.match_indices('.').map(|(at, _)| at);
        let before = dots.clone().map(|at| &module[..at]);
        let after = dots.filter(|_| self.has_dot_at_end).map(|at| &module[..=at]);
        before.chain(after).chain([module]).filter_map(|start| self.start(start)).min()
    }

    /// How often the bytes of a name are examined.
    fn passes(&self, module: &str, dots: usize) -> usize {
        if self.places.is_empty() {
            return 0;
        }
        // The number of characters up to each dot is about the number of bytes.
        let starts = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
        let shapes = |length: usize| self.shapes.get(&length).map_or(0, Vec::len);
        2 * dots + 1 + starts.map(|at| shapes(at) + shapes(at + 1)).sum::<usize>()
    }

    /// The first key that matches a whole prefix of a name.
    fn start(&self, start: &str) -> Option<usize> {
        let shapes = self.shapes.get(&start.chars().count()).into_iter().flatten();
        let in_shape = shapes.filter_map(|shape| shape.places.get(&with_dots(start, &shape.dots)?).copied());
        in_shape.chain(self.places.get(start).copied()).min()
    }
}

/// The text with dots at these positions, counted in characters; a dot does not match a line end.
fn with_dots(text: &str, dots: &[usize]) -> Option<String> {
    let mut dots = dots.iter().peekable();
    let dotted = text.chars().enumerate().map(|(position, c)| match dots.next_if_eq(&&position) {
        Some(_) if c == '\n' => None,
        Some(_) => Some('.'),
        None => Some(c),
    });
    dotted.collect()
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Dialect;
    use super::*;

    #[test]
    fn a_set_finds_what_its_patterns_find_one_by_one() {
        let dialects: [Dialect; 7] = [
            ModulePattern::compressed_tensors,
            ModulePattern::transformers,
            ModulePattern::modelopt,
            ModulePattern::gptqmodel,
            ModulePattern::auto_round,
            ModulePattern::end,
            ModulePattern::subtree,
        ];
        let mut state = 7u64;
        let mut next = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        let mut meant = 0;
        for round in 0..4000 {
            let dialect = dialects[next(dialects.len())];
            let mut text = |letters: &[&str], most: usize| -> String {
                (0..next(most)).map(|_| letters[next(letters.len())]).collect()
            };
            let entries: Vec<_> = (0..6).map(|_| text(&["a", "b", ".", "*", "a.b"], 5)).collect();
            let patterns: Vec<_> = entries.iter().filter_map(|entry| dialect(entry).ok()).collect();
            let mut set = PatternSet::default();
            patterns.iter().for_each(|pattern| set.insert(pattern.clone()));
            for _ in 0..8 {
                let module = text(&["a", "b", ".", "\n", "ü"], 7);
                let is_meant = patterns.iter().any(|pattern| pattern.matches(&module));
                assert_eq!(set.first(&module).is_some(), is_meant, "round {round}: {entries:?} and {module:?}");
                if let Some(place) = set.first(&module) {
                    meant += 1;
                    assert!(patterns[place].matches(&module), "round {round}: {entries:?} and {module:?}");
                }
            }
        }
        assert!(meant > 1000, "{meant}");
    }

    #[test]
    fn the_first_pattern_counts_whatever_its_kind() {
        let mut set = PatternSet::default();
        for entry in ["b.*", "^a$", "a.*"] {
            set.insert(ModulePattern::gptqmodel(entry).unwrap());
        }
        assert_eq!(["b", "a", "ab", "c"].map(|module| set.first(module)), [Some(0), Some(1), Some(2), None]);
        let mut set = PatternSet::default();
        for entry in ["a", "a.b"] {
            set.insert(ModulePattern::subtree(entry).unwrap());
        }
        assert_eq!(["a.b.c", "a.c", "a"].map(|module| set.first(module)), [Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn sixty_thousand_modules_are_asked_of_sixty_thousand_entries() {
        // Compared one by one this takes minutes.
        let name = |number: usize| format!("model.layers.{}.mlp.experts.{}.up_proj", number % 61, number / 61);
        for dialect in [ModulePattern::compressed_tensors, ModulePattern::transformers, ModulePattern::modelopt] {
            let mut set = PatternSet::default();
            for number in 0..61_000 {
                set.insert(dialect(&name(2 * number)).unwrap());
            }
            let found = (0..60_000).filter(|&number| set.first(&name(number)).is_some()).count();
            assert_eq!((found, set.expressions()), (30_000, 0));
        }
    }
}
