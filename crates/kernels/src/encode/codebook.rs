//! The sixteen values of a four-bit code, as the decision limits between them.

use crate::base::simd::{LimitTree, NEAR, NEGATIVE_ZERO, key};

/// Limits are used only if different entries differ by at least this: a quotient is then never equally far from three
/// entries after rounding.
const SMALLEST_GAP: f32 = 1.0 / 65536.0;

/// A map from values to four-bit codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook(Lookup);

#[derive(Clone, Debug, PartialEq)]
enum Lookup {
    /// The nearest entry of the table; by limits where these give the same codes.
    Nearest([f32; 16], Option<LimitTree>),
    /// Limits that decide every value; NaN gets the last code.
    Limits(LimitTree),
}

fn from_key(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) & i32::MAX)) as u32)
}

impl Codebook {
    /// Each value gets the code of the nearest entry of `map`, the first of several.
    ///
    /// An entry with the same bits comes first. A negative value whose code is below 8 gets the code 8 above it if both
    /// entries have the same bits.
    pub fn nearest(map: [f32; 16]) -> Self {
        let is_distinct = |a: f32, b: f32| a == b || (a - b).abs() >= SMALLEST_GAP;
        // NaN and infinity are not below the bound.
        let is_usable = map.iter().all(|&a| a.abs() <= NEAR / 2.0 && map.iter().all(|&b| is_distinct(a, b)));
        Self(Lookup::Nearest(map, if is_usable { nearest_limits(&map) } else { None }))
    }

    /// A value gets `codes[n]` if `n` of the ascending `limits` are below it.
    pub fn with(limits: [f32; 15], codes: [u8; 16]) -> Self {
        // Zeros of either sign are on the same side of a limit of zero.
        let limits = limits.map(|limit| key(limit + 0.0));
        let negative_zero = codes[limits.iter().filter(|&&limit| limit < NEGATIVE_ZERO).count()];
        Self(Lookup::Limits(LimitTree::new(limits, codes, negative_zero)))
    }

    /// The limits between codes, if these decide.
    #[inline(always)]
    pub(super) fn tree(&self) -> Option<&LimitTree> {
        match &self.0 {
            Lookup::Nearest(_, tree) => tree.as_ref(),
            Lookup::Limits(tree) => Some(tree),
        }
    }

    /// The code of a value, decided exactly.
    pub(super) fn code(&self, number: f32) -> u8 {
        match &self.0 {
            Lookup::Nearest(map, _) => nearest(number, map),
            Lookup::Limits(tree) if number.is_nan() => tree.last(),
            Lookup::Limits(tree) => tree.code(number),
        }
    }
}

/// Finds the limits by bisection: between neighbouring entries the code changes once.
fn nearest_limits(map: &[f32; 16]) -> Option<LimitTree> {
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
    Some(LimitTree::new(limits, codes, nearest(-0.0, map)))
}

/// The code of the entry nearest to `number`.
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
    let has_negative_twin = code < 8 && map[code + 8].to_bits() == map[code].to_bits();
    if has_negative_twin && number.is_sign_negative() { code as u8 + 8 } else { code as u8 }
}
