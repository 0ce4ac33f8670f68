//! The values of the sixteen codes of four bits, as the decision limits between them.

use crate::base::simd::{NEAR, NEGATIVE_ZERO, Tree, key};

/// Entries that differ differ by at least this much where limits are used: near quotients cannot then be equally far from
/// three of them, whatever the rounding of the distances.
const SMALLEST_GAP: f32 = 1.0 / 65536.0;

/// Codes of four bits and how a number finds its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook(Rule);

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// The nearest entry of a map; by limits where it has any that say the same.
    Nearest([f32; 16], Option<Tree>),
    /// Limits that hold for every number; NaN is beyond all of them.
    Limits(Tree),
}

fn from_key(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) & i32::MAX)) as u32)
}

impl Codebook {
    /// Every number becomes the code whose entry of `map` is nearest; of several, the first.
    ///
    /// An entry that equals the number to the bit comes before all others. Where a negative number finds a code below 8
    /// whose entry is, to the bit, also that of the code 8 above it, it takes the latter.
    pub fn nearest(map: [f32; 16]) -> Self {
        let is_apart = |a: f32, b: f32| a == b || (a - b).abs() >= SMALLEST_GAP;
        // NaN and infinity are not below the bound.
        let is_usable = map.iter().all(|&a| a.abs() <= NEAR / 2.0 && map.iter().all(|&b| is_apart(a, b)));
        Self(Rule::Nearest(map, if is_usable { nearest_limits(&map) } else { None }))
    }

    /// A number becomes `codes[n]` where `n` of the rising `limits` are below it.
    pub fn with(limits: [f32; 15], codes: [u8; 16]) -> Self {
        // Both zeros are above or below a limit of zero together.
        let limits = limits.map(|limit| key(limit + 0.0));
        let negative_zero = codes[limits.iter().filter(|&&limit| limit < NEGATIVE_ZERO).count()];
        Self(Rule::Limits(Tree::new(limits, codes, negative_zero)))
    }

    /// The limits between codes, where they decide at all.
    #[inline(always)]
    pub(super) fn tree(&self) -> Option<&Tree> {
        match &self.0 {
            Rule::Nearest(_, tree) => tree.as_ref(),
            Rule::Limits(tree) => Some(tree),
        }
    }

    /// The code of any number.
    pub(super) fn code(&self, number: f32) -> u8 {
        match &self.0 {
            Rule::Nearest(map, _) => nearest(number, map),
            Rule::Limits(tree) if number.is_nan() => tree.last(),
            Rule::Limits(tree) => tree.code(number),
        }
    }
}

/// Finds the limits by asking for codes. Between neighbouring entries they change once.
fn nearest_limits(map: &[f32; 16]) -> Option<Tree> {
    let code = |key: i32| nearest(from_key(key), map);
    let below_zero = NEGATIVE_ZERO - 1;
    let mut probes: Vec<i32> = map.iter().map(|&entry| key(entry)).filter(|&key| key != NEGATIVE_ZERO).collect();
    probes.extend([key(-NEAR), below_zero, 0, key(NEAR)]);
    probes.sort_unstable();
    probes.dedup();
    let (mut limits, mut codes, mut changes) = ([i32::MAX; 15], [code(key(-NEAR)); 16], 0);
    for pair in probes.windows(2) {
        let (mut low, mut high) = (pair[0], pair[1]);
        let (before, after) = (code(low), code(high));
        if before == after {
            continue;
        }
        while low != below_zero && high - low > 1 {
            let middle = low.midpoint(high);
            if code(middle) == before {
                low = middle;
            } else {
                high = middle;
            }
        }
        if code(high) != after || changes == limits.len() {
            return None;
        }
        limits[changes] = low;
        changes += 1;
        codes[changes..].fill(after);
    }
    Some(Tree::new(limits, codes, nearest(-0.0, map)))
}

/// The code of the entry that is nearest to `number`.
fn nearest(number: f32, map: &[f32; 16]) -> u8 {
    let exact = map.iter().position(|entry| entry.to_bits() == number.to_bits());
    let code = exact.unwrap_or_else(|| {
        let mut best = (0, f32::INFINITY);
        for (code, &entry) in map.iter().enumerate() {
            let distance = (number - entry).abs();
            if distance < best.1 {
                best = (code, distance);
            }
        }
        best.0
    });
    let has_twin = code < 8 && map[code + 8].to_bits() == map[code].to_bits();
    if has_twin && number.is_sign_negative() { code as u8 + 8 } else { code as u8 }
}
