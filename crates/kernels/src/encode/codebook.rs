//! What the sixteen codes of four bits stand for, as the limits between them.

/// Quotients up to this magnitude are decided by limits.
const NEAR: f32 = 16.0;

/// Entries that differ differ by at least this much where limits are used: near quotients cannot then be equally far from
/// three of them, whatever the rounding of the distances.
const SMALLEST_GAP: f32 = 1.0 / 65536.0;

/// Codes of four bits and how a number finds its own.
///
/// Numbers are compared by their [`key`], which orders them as the numbers are, −0.0 before +0.0. The code of a number is
/// `codes[n]` where `n` of the `limits` are below it; −0.0 has a code of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    limits: [i32; 15],
    codes: [u8; 16],
    negative_zero: u8,
    rule: Rule,
    /// Whether limits decide at all.
    pub(super) has_limits: bool,
}

/// What limits stand for, asked where they do not decide.
#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// The nearest entry.
    Nearest([f32; 16]),
    /// Limits that hold for every number; NaN is beyond all of them.
    Limits,
}

/// A number's place in the order of all numbers.
#[inline(always)]
pub(super) fn key(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ ((bits >> 31) & i32::MAX)
}

fn from_key(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) & i32::MAX)) as u32)
}

/// What the encoding loop needs of a codebook.
#[derive(Clone, Copy)]
pub(super) struct Climb {
    pub limits: [i32; 15],
    /// What the code grows by above each limit.
    pub growth: [i32; 15],
    /// The code below all limits.
    pub first: i32,
    pub negative_zero: i32,
}

/// Keys beyond which limits do not decide: everything below the first and above the second.
pub(super) const REACH: (i32, i32) = (-1 - NEAR.to_bits() as i32, NEAR.to_bits() as i32);

/// The key of −0.0.
pub(super) const NEGATIVE_ZERO: i32 = -1;

impl Codebook {
    /// Every number becomes the code whose entry of `map` is nearest; of several, the first.
    ///
    /// An entry that equals the number to the bit comes before all others. Where a negative number finds a code below 8
    /// whose entry is, to the bit, also that of the code 8 above it, it takes the latter.
    pub fn nearest(map: [f32; 16]) -> Self {
        let unused = Self {
            limits: [i32::MAX; 15],
            codes: [0; 16],
            negative_zero: nearest(-0.0, &map),
            rule: Rule::Nearest(map),
            has_limits: false,
        };
        let is_apart = |a: f32, b: f32| a == b || (a - b).abs() >= SMALLEST_GAP;
        // NaN and infinity are not below the bound.
        let is_usable = map.iter().all(|&a| a.abs() <= NEAR / 2.0 && map.iter().all(|&b| is_apart(a, b)));
        if is_usable { unused.clone().with_limits(&map).unwrap_or(unused) } else { unused }
    }

    /// A number becomes `codes[n]` where `n` of the rising `limits` are below it.
    pub fn with(limits: [f32; 15], codes: [u8; 16]) -> Self {
        // Both zeros are above or below a limit of zero together.
        let limits = limits.map(|limit| key(limit + 0.0));
        let negative_zero = codes[limits.iter().filter(|&&limit| limit < NEGATIVE_ZERO).count()];
        Self { limits, codes, negative_zero, rule: Rule::Limits, has_limits: true }
    }

    /// Finds the limits by asking the rule. Between neighbouring entries it changes its mind once.
    fn with_limits(mut self, map: &[f32; 16]) -> Option<Self> {
        let code = |key: i32| nearest(from_key(key), map);
        let below_zero = NEGATIVE_ZERO - 1;
        let mut probes: Vec<i32> = map.iter().map(|&entry| key(entry)).filter(|&key| key != NEGATIVE_ZERO).collect();
        probes.extend([REACH.0, below_zero, 0, REACH.1]);
        probes.sort_unstable();
        probes.dedup();
        let mut changes = 0;
        self.codes = [code(REACH.0); 16];
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
            if code(high) != after || changes == self.limits.len() {
                return None;
            }
            self.limits[changes] = low;
            changes += 1;
            self.codes[changes..].fill(after);
        }
        self.has_limits = true;
        Some(self)
    }

    #[inline(always)]
    pub(super) fn climb(&self) -> Climb {
        let mut growth = [0; 15];
        for (growth, pair) in growth.iter_mut().zip(self.codes.windows(2)) {
            *growth = i32::from(pair[1]) - i32::from(pair[0]);
        }
        let (first, negative_zero) = (i32::from(self.codes[0]), i32::from(self.negative_zero));
        Climb { limits: self.limits, growth, first, negative_zero }
    }

    /// The code of any number.
    pub(super) fn code(&self, number: f32) -> u8 {
        match &self.rule {
            Rule::Nearest(map) => nearest(number, map),
            Rule::Limits if number.is_nan() => self.codes[15],
            Rule::Limits => self.codes[self.limits.iter().filter(|&&limit| key(number) > limit).count()],
        }
    }
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
