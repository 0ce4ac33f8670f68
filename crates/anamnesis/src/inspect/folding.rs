//! Names of tensors folded into patterns: `model.layers.[0-31].mlp.{gate,up}_proj.weight`.
//!
//! First the numbers of names that are equal otherwise become ranges, the last one first: every pattern stands for
//! exactly the tensors that it lists. Then patterns of equal tensors that differ in one piece are joined by braces. Only
//! tensors of the same shape and storage share a pattern. Of several patterns that differ in nothing but their numbers,
//! all but the largest are odd ones out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::contents::{ContentTensor, Contents};

/// Tensors that share a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoldedTensors {
    /// The pattern.
    pub pattern: String,
    /// The shape of each of them; `None` if it is unknown, or they are of several.
    pub shape: Option<Vec<usize>>,
    /// Indices of their kinds of storage, the one with most bytes first.
    pub kinds: Vec<usize>,
    /// How many they are.
    pub tensors: usize,
    /// Their stored bytes, with companions.
    pub bytes: u64,
    /// Their decoded values; `None` if some cannot be decoded.
    pub values: Option<u64>,
    /// Whether most tensors of this name in other layers have another shape or storage.
    pub is_odd: bool,
}

impl Contents<'_> {
    /// The tensors by pattern, in order of their first names. With a depth, names are cut after so many pieces, not
    /// counting numbers.
    #[must_use]
    pub fn folded(&self, depth: Option<usize>) -> Vec<FoldedTensors> {
        match depth {
            Some(depth) => self.cut(depth),
            None => joined(self.numbered()),
        }
    }

    /// Folds numbers.
    fn numbered(&self) -> Vec<Entry<'_>> {
        let mut items: Vec<(Alike<'_>, usize, Numbered)> = Vec::with_capacity(self.tensors.len());
        for (place, tensor) in self.tensors.iter().enumerate() {
            let (template, numbers) = template(tensor.name, usize::MAX);
            items.push(((template, tensor.shape.as_deref(), tensor.kind), place, Numbered::of(tensor, numbers)));
        }
        items.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        // Groups of tensors that share a template are neighbours.
        let mut groups: Vec<Group<'_>> = Vec::new();
        for (alike, place, numbered) in items {
            match groups.last_mut() {
                Some(group) if group.alike == alike => group.tensors.push(numbered),
                _ => groups.push(Group { alike, first: place, tensors: vec![numbered], is_odd: false }),
            }
        }
        for same in groups.chunk_by_mut(|a, b| a.alike.0 == b.alike.0) {
            let largest = same.iter().enumerate().max_by_key(|(_, group)| (group.tensors.len(), Reverse(group.first)));
            let largest = largest.map(|(place, _)| place);
            same.iter_mut().enumerate().for_each(|(place, group)| group.is_odd = Some(place) != largest);
        }
        groups.sort_unstable_by_key(|group| group.first);
        let mut entries = Vec::new();
        for Group { alike: (template, shape, kind), tensors, is_odd, .. } in groups {
            for folded in fold_numbers(tensors) {
                entries.push(Entry {
                    pattern: filled(&template, &folded.ranges),
                    shape,
                    kind,
                    is_odd,
                    sum: folded.sum,
                });
            }
        }
        entries
    }

    fn cut(&self, depth: usize) -> Vec<FoldedTensors> {
        let mut groups: HashMap<String, BTreeMap<Vec<u64>, CutSum>> = HashMap::new();
        let mut order = Vec::new();
        for tensor in &self.tensors {
            let (template, numbers) = template(tensor.name, depth.max(1));
            let group = groups.entry(template).or_insert_with_key(|template| {
                order.push(template.clone());
                BTreeMap::new()
            });
            let (sum, kinds) = group.entry(numbers).or_default();
            sum.add(&Sum::of(tensor));
            *kinds.entry(tensor.kind).or_default() += tensor.bytes;
        }
        let mut folded = Vec::new();
        for template in order {
            let group = groups.remove(&template).unwrap_or_default();
            let mut kinds: BTreeMap<usize, u64> = BTreeMap::new();
            let of_kinds = group.values().flat_map(|(_, kinds)| kinds);
            of_kinds.for_each(|(kind, bytes)| *kinds.entry(*kind).or_default() += bytes);
            let mut kinds: Vec<(usize, u64)> = kinds.into_iter().collect();
            kinds.sort_by_key(|(kind, bytes)| (Reverse(*bytes), *kind));
            let kinds: Vec<usize> = kinds.into_iter().map(|(kind, _)| kind).collect();
            let numbered = group.into_iter().map(|(numbers, (sum, _))| Numbered { numbers, ranges: Vec::new(), sum });
            for entry in fold_numbers(numbered.collect()) {
                folded.push(FoldedTensors {
                    pattern: filled(&template, &entry.ranges),
                    shape: None,
                    kinds: kinds.clone(),
                    tensors: entry.sum.tensors,
                    bytes: entry.sum.bytes,
                    values: entry.sum.values,
                    is_odd: false,
                });
            }
        }
        folded
    }
}

/// A template, a shape and a kind of storage: tensors that have them in common share a pattern.
type Alike<'a> = (String, Option<&'a [usize]>, usize);

/// Sums of tensors under a name that is cut, and the bytes of each kind of storage.
type CutSum = (Sum, BTreeMap<usize, u64>);

/// The numbers before the one that is folded, and the ranges after it.
type Front = (Vec<u64>, Vec<String>);

/// Sums of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    tensors: usize,
    bytes: u64,
    values: Option<u64>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { tensors: 0, bytes: 0, values: Some(0) }
    }
}

impl Sum {
    fn of(tensor: &ContentTensor<'_>) -> Self {
        Self { tensors: 1, bytes: tensor.bytes, values: tensor.values }
    }

    fn add(&mut self, other: &Self) {
        self.tensors += other.tensors;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.values = self.values.zip(other.values).map(|(a, b)| a.saturating_add(b));
    }
}

/// Tensors with equal names but for these numbers and ranges.
#[derive(Debug)]
struct Numbered {
    /// The numbers that are not folded yet.
    numbers: Vec<u64>,
    /// The ranges of those that are, the last position first.
    ranges: Vec<String>,
    sum: Sum,
}

impl Numbered {
    fn of(tensor: &ContentTensor<'_>, numbers: Vec<u64>) -> Self {
        Self { numbers, ranges: Vec::new(), sum: Sum::of(tensor) }
    }
}

/// Folds the last numbers of all entries, until none is left.
fn fold_numbers(mut entries: Vec<Numbered>) -> Vec<Numbered> {
    let positions = entries.first().map_or(0, |entry| entry.numbers.len());
    for _ in 0..positions {
        let mut groups: BTreeMap<Front, (Vec<u64>, Sum)> = BTreeMap::new();
        for mut entry in entries {
            let last = entry.numbers.pop().unwrap_or(0);
            let (numbers, sum) = groups.entry((entry.numbers, entry.ranges)).or_default();
            numbers.push(last);
            sum.add(&entry.sum);
        }
        entries = groups
            .into_iter()
            .map(|((front, mut ranges), (mut numbers, sum))| {
                numbers.sort_unstable();
                ranges.push(ranges_of(&numbers));
                Numbered { numbers: front, ranges, sum }
            })
            .collect();
    }
    entries
}

/// Ranges that are listed before the rest is left out.
const RANGES_SHOWN: usize = 8;

/// Sorted numbers as text: `7`, `[0-31]`, `[0-3,5]`.
fn ranges_of(numbers: &[u64]) -> String {
    let runs: Vec<&[u64]> = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)).collect();
    let run = |run: &&[u64]| match (run.first(), run.last()) {
        (Some(first), Some(last)) if last > first => format!("{first}-{last}"),
        (first, _) => first.map(u64::to_string).unwrap_or_default(),
    };
    if let [only] = numbers {
        return only.to_string();
    }
    let shown: Vec<String> = match runs.len() > RANGES_SHOWN {
        true => {
            let first = runs.iter().take(RANGES_SHOWN - 2).map(run);
            first.chain(["…".to_owned()]).chain(runs.last().map(run)).collect()
        }
        false => runs.iter().map(run).collect(),
    };
    format!("[{}]", shown.join(","))
}

/// Stands for a number in a template.
const NUMBER: &str = "\u{0}";

/// A name whose numbers are taken out, cut after `depth` other pieces.
fn template(name: &str, depth: usize) -> (String, Vec<u64>) {
    // A name that has the mark itself is not folded.
    let has_numbers = !name.contains(NUMBER);
    let mut numbers = Vec::new();
    let mut pieces = Vec::new();
    let mut words = 0;
    for piece in name.split('.') {
        let number = Some(piece).filter(|_| has_numbers && words > 0).and_then(number);
        if number.is_none() {
            words += 1;
            if words > depth {
                break;
            }
        }
        numbers.extend(number);
        pieces.push(if number.is_some() { NUMBER } else { piece });
    }
    (pieces.join("."), numbers)
}

/// A piece as a number, if it is written as one.
fn number(piece: &str) -> Option<u64> {
    let is_plain = piece.bytes().all(|byte| byte.is_ascii_digit()) && (piece == "0" || !piece.starts_with('0'));
    piece.parse().ok().filter(|_| is_plain)
}

/// A template with ranges in place of numbers; the last range comes first.
fn filled(template: &str, ranges: &[String]) -> String {
    let mut ranges = ranges.iter().rev();
    let fill = |piece: &str| match piece {
        NUMBER => ranges.next().cloned().unwrap_or_else(|| piece.to_owned()),
        piece => piece.to_owned(),
    };
    template.split('.').map(fill).collect::<Vec<_>>().join(".")
}

/// Tensors with the same template, shape and kind of storage.
struct Group<'a> {
    alike: Alike<'a>,
    /// The place of the first.
    first: usize,
    tensors: Vec<Numbered>,
    is_odd: bool,
}

/// A pattern with its tensors.
#[derive(Debug)]
struct Entry<'a> {
    pattern: String,
    shape: Option<&'a [usize]>,
    kind: usize,
    is_odd: bool,
    sum: Sum,
}

/// Alternatives in one pair of braces.
const ALTERNATIVES_SHOWN: usize = 8;
/// Patterns up to which they are joined; more are names without order.
const MAX_JOINED: usize = 20_000;

/// Joins patterns that differ in one piece, from the last position to the first.
fn joined(mut entries: Vec<Entry<'_>>) -> Vec<FoldedTensors> {
    let positions = entries.iter().map(|entry| entry.pattern.split('.').count()).max().unwrap_or(0);
    let positions = if entries.len() > MAX_JOINED { 0 } else { positions.min(MAX_POSITIONS) };
    for from_end in 0..positions {
        let mut places: HashMap<_, usize> = HashMap::new();
        let mut groups: Vec<(Entry<'_>, Vec<String>)> = Vec::new();
        for entry in entries {
            // The text before, inside and after the piece.
            let Some((front, piece, back)) = piece_from_end(&entry.pattern, from_end) else {
                groups.push((entry, Vec::new()));
                continue;
            };
            // Numbers are folded already.
            if piece.starts_with('[') || piece.starts_with(|first: char| first.is_ascii_digit()) {
                groups.push((entry, Vec::new()));
                continue;
            }
            let key = (front.to_owned(), back.to_owned(), entry.shape, entry.kind, entry.is_odd, entry.sum.tensors);
            let piece = piece.to_owned();
            match places.get(&key).and_then(|&group| groups.get_mut(group)) {
                Some((whole, alternatives)) if alternatives.len() < ALTERNATIVES_SHOWN => {
                    whole.sum.add(&entry.sum);
                    alternatives.push(piece);
                }
                _ => {
                    places.insert(key, groups.len());
                    groups.push((entry, vec![piece]));
                }
            }
        }
        entries = groups
            .into_iter()
            .map(|(mut entry, alternatives)| {
                if alternatives.len() > 1
                    && let Some((front, _, back)) = piece_from_end(&entry.pattern, from_end)
                {
                    entry.pattern = format!("{front}{}{back}", braces(&alternatives));
                }
                entry
            })
            .collect();
    }
    let folded = |entry: Entry<'_>| FoldedTensors {
        pattern: entry.pattern,
        shape: entry.shape.map(<[usize]>::to_vec),
        kinds: vec![entry.kind],
        tensors: entry.sum.tensors,
        bytes: entry.sum.bytes,
        values: entry.sum.values,
        is_odd: entry.is_odd,
    };
    entries.into_iter().map(folded).collect()
}

/// A piece by its place from the end, with the text before and after it.
fn piece_from_end(pattern: &str, from_end: usize) -> Option<(&str, &str, &str)> {
    let mut end = pattern.len();
    for _ in 0..from_end {
        end = pattern.get(..end)?.rfind('.')?;
    }
    let start = pattern.get(..end)?.rfind('.').map_or(0, |dot| dot + 1);
    Some((pattern.get(..start)?, pattern.get(start..end)?, pattern.get(end..)?))
}

/// Positions of names, from the end, where patterns are joined.
const MAX_POSITIONS: usize = 16;

/// `{gate,up}_proj` for `gate_proj` and `up_proj`.
fn braces(alternatives: &[String]) -> String {
    let words: Vec<Vec<char>> = alternatives.iter().map(|word| word.chars().collect()).collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let agree = |place: usize, from_end: bool| {
        let at = |word: &Vec<char>| match from_end {
            true => word.len().checked_sub(place + 1).and_then(|place| word.get(place)).copied(),
            false => word.get(place).copied(),
        };
        let mut letters = words.iter().map(at);
        let first = letters.next().flatten();
        first.is_some() && letters.all(|letter| letter == first)
    };
    let front = (0..shortest).take_while(|place| agree(*place, false)).count();
    let back = (0..shortest - front).take_while(|place| agree(*place, true)).count();
    let (mut front, mut back) = (front, back);
    // Whole words only: a cut inside of one reads badly.
    if let Some(first) = words.first() {
        while front > 0 && first.get(front - 1) != Some(&'_') {
            front -= 1;
        }
        while back > 0 && first.get(first.len() - back) != Some(&'_') {
            back -= 1;
        }
    }
    let part =
        |word: &Vec<char>, range: std::ops::Range<usize>| word.get(range).into_iter().flatten().collect::<String>();
    let middles: Vec<String> = words.iter().map(|word| part(word, front..word.len() - back)).collect();
    let (start, end) = words.first().map_or((String::new(), String::new()), |word| {
        (part(word, 0..front), part(word, word.len() - back..word.len()))
    });
    format!("{start}{{{}}}{end}", middles.join(","))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::contents::StorageKind;
    use super::*;
    use crate::catalog::Dtype;

    /// Tensors by name, shape and kind, of one byte each.
    fn folded(tensors: &[(&str, [usize; 2], usize)], depth: Option<usize>) -> Vec<String> {
        let mut tensors: Vec<_> = tensors
            .iter()
            .map(|(name, shape, kind)| ContentTensor {
                name,
                shape: Some(Cow::Borrowed(shape)),
                values: Some(1),
                bytes: 1,
                kind: *kind,
                dtype: Dtype::F32,
                is_alias: false,
            })
            .collect();
        tensors.sort_by_key(|tensor| tensor.name);
        let contents = Contents { kinds: Vec::<StorageKind>::new(), tensors };
        let line = |entry: &FoldedTensors| {
            assert_eq!(entry.bytes, entry.tensors as u64);
            let odd = if entry.is_odd { " odd" } else { "" };
            format!("{} ×{} {:?}{odd}", entry.pattern, entry.tensors, entry.kinds)
        };
        contents.folded(depth).iter().map(line).collect()
    }

    #[test]
    fn numbers_become_ranges_and_equal_modules_braces() {
        let names: Vec<String> = (0..12)
            .flat_map(|layer| ["gate", "up"].map(|module| format!("model.layers.{layer}.mlp.{module}_proj.weight")))
            .chain(["model.embed_tokens.weight".to_owned()])
            .collect();
        let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), [2, 3], 0)).collect();
        let wanted = ["model.embed_tokens.weight ×1 [0]", "model.layers.[0-11].mlp.{gate,up}_proj.weight ×24 [0]"];
        assert_eq!(folded(&tensors, None), wanted);
        assert_eq!(folded(&tensors, Some(1)), ["model ×25 [0]"]);
        assert_eq!(folded(&tensors, Some(2)), ["model.embed_tokens ×1 [0]", "model.layers.[0-11] ×24 [0]"]);
    }

    #[test]
    fn odd_ones_are_apart() {
        let names: Vec<String> = (0..8).map(|layer| format!("blk.{layer}.attn_v.weight")).collect();
        let tensors: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(layer, name)| (name.as_str(), [2, 3], usize::from(layer % 4 == 1)))
            .collect();
        let wanted = ["blk.[0,2-4,6-7].attn_v.weight ×6 [0]", "blk.[1,5].attn_v.weight ×2 [1] odd"];
        assert_eq!(folded(&tensors, None), wanted);
    }

    #[test]
    fn a_pattern_stands_for_exactly_its_tensors() {
        // Layer 1 has one expert more: the layers do not share a range.
        let names = ["m.0.e.0.w", "m.0.e.1.w", "m.1.e.0.w", "m.1.e.1.w", "m.1.e.2.w", "m.2.e.0.w", "m.2.e.1.w"];
        let tensors: Vec<_> = names.iter().map(|name| (*name, [1, 1], 0)).collect();
        assert_eq!(folded(&tensors, None), ["m.[0,2].e.[0-1].w ×4 [0]", "m.1.e.[0-2].w ×3 [0]"]);
    }

    #[test]
    fn names_of_any_form_are_counted() {
        let names = ["", ".", "0", "07.1", "a..1", "a.\u{0}.1", "a.18446744073709551616.b", "é.1.é"];
        let tensors: Vec<_> = names.iter().map(|name| (*name, [1, 1], 0)).collect();
        let wanted = [" ×1 [0]", ". ×1 [0]", "0 ×1 [0]", "07.1 ×1 [0]", "a.{\u{0},}.1 ×2 [0]"];
        assert_eq!(folded(&tensors, None)[..5], wanted);
        assert_eq!(folded(&tensors, None).len(), 7);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(ranges_of(&(0..20).step_by(2).collect::<Vec<_>>()), "[0,2,4,6,8,10,…,18]");
        assert_eq!(ranges_of(&[3]), "3");
        assert_eq!(ranges_of(&[u64::MAX - 1, u64::MAX]), format!("[{}-{}]", u64::MAX - 1, u64::MAX));
        assert_eq!(braces(&["gate_proj".into(), "up_proj".into()]), "{gate,up}_proj");
        assert_eq!(braces(&["attn_q".into(), "attn_output".into()]), "attn_{q,output}");
        assert_eq!(braces(&["input".into(), "output".into()]), "{input,output}");
        assert_eq!(braces(&["a".into(), "a_b".into()]), "{a,a_b}");
    }
}
