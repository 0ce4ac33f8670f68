//! Numbers of every kind, from a seed.

/// What numbers are like.
pub const KINDS: [&str; 14] = [
    "gaussian",
    "heavy-tailed",
    "sparse",
    "nearly zero",
    "constant",
    "whole",
    "tiny",
    "subnormal",
    "large",
    "huge",
    "positive",
    "negative",
    "far apart",
    "zero",
];

/// A sequence that looks random (SplitMix64).
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Between zero and one, neither of them.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn gaussian(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// The value at a place of a row.
pub fn value(kind: &str, place: usize, random: &mut Random) -> f32 {
    let number = random.gaussian();
    let value = match kind {
        "gaussian" => 0.05 * number,
        "heavy-tailed" => number / random.unit().sqrt().powi(3),
        "sparse" => number * f64::from(u8::from(random.below(10) == 0)),
        "nearly zero" => number * if place % 256 == 77 { 1.0 } else { 1e-9 },
        "constant" => -0.37 * (1 + place / 96) as f64,
        "whole" => (4.0 * number).round(),
        "tiny" => 1e-15 * number,
        "subnormal" => 1e-40 * number,
        "large" => 1e6 * number,
        "huge" => 1e30 * number,
        "positive" => number.abs(),
        "negative" => -number.abs(),
        "far apart" => number * 10f64.powi((place / 16 * 7 % 24) as i32 - 12),
        _ => 0.0,
    };
    value as f32
}

/// An importance: some places have none.
pub fn weight(random: &mut Random) -> f32 {
    if random.below(5) == 0 { 0.0 } else { (0.01 + random.unit()) as f32 }
}
