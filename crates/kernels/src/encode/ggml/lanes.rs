//! Sixteen sub-blocks side by side, and the conversions of C.

/// Sub-blocks that are searched together.
pub(super) const LANES: usize = 16;

/// A number of each sub-block.
pub(super) type Lanes = [f32; LANES];

/// `each!(lane => expression)`: the expression for every lane.
macro_rules! each {
    ($lane:ident => $value:expr) => {{
        let mut results = [Default::default(); $crate::encode::ggml::lanes::LANES];
        for $lane in 0..$crate::encode::ggml::lanes::LANES {
            results[$lane] = $value;
        }
        results
    }};
}
pub(super) use each;

/// Sub-blocks of `N` values that follow each other, with their places in front: `result[place][lane]`. Lanes without a
/// sub-block are zero.
#[inline(always)]
pub(super) fn side_by_side<const N: usize>(values: &[f32]) -> [Lanes; N] {
    let mut places = [[0.0; LANES]; N];
    for (lane, block) in values.as_chunks::<N>().0.iter().take(LANES).enumerate() {
        for (place, value) in places.iter_mut().zip(block) {
            place[lane] = *value;
        }
    }
    places
}

/// The nearest whole number, ties to even, by the addition that leaves no room for a fraction. Beyond four million, and for
/// NaN, it is what the bits are.
#[inline(always)]
pub(super) fn nearest(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007F_FFFF) as i32 - 0x0040_0000
}

/// What a conversion to `int` gives on x86: towards zero, and the least number for what does not fit.
#[inline(always)]
pub(super) fn truncated(value: f32) -> i32 {
    // The largest f32 below 2^31 is a whole number.
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

/// The larger as C's macro finds it: the second where they cannot be compared.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Values below this are no scale.
pub(super) const SMALLEST: f32 = 1e-15;

/// Values of a super-block.
pub(super) const SUPER: usize = 256;

/// The sum of squares, in order.
#[inline(always)]
pub(super) fn squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// One divided by a scale; nothing by nothing.
#[inline(always)]
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The value of the largest size, the first of several, and its size.
#[inline(always)]
pub(super) fn extreme(values: &[f32]) -> (f32, f32) {
    let (mut found, mut size) = (0.0, 0.0);
    for &value in values {
        let is_larger = value.abs() > size;
        found = if is_larger { value } else { found };
        size = if is_larger { value.abs() } else { size };
    }
    (found, size)
}

/// Weights that importance and size make.
#[inline(always)]
pub(super) fn weighted<const N: usize>(values: &[Lanes; N], importance: &[Lanes; N], variance: &Lanes) -> [Lanes; N] {
    let mut weights = [[0.0; LANES]; N];
    for i in 0..N {
        for k in 0..LANES {
            weights[i][k] = importance[i][k] * (variance[k] + values[i][k] * values[i][k]).sqrt();
        }
    }
    weights
}
