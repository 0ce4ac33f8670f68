//! Arithmetic shared by the encoders: sixteen sub-blocks in lanes, and the helpers of ggml (`nearest_int`, `MAX`) with
//! their exact behaviour.

use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::simd::{Simd, TILE};

/// Sub-blocks that are searched together.
pub(super) const LANES: usize = 16;

/// One value per sub-block.
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

/// Transposes consecutive sub-blocks of `N` values: `result[index][lane]`. Unused lanes are zero.
#[inline(always)]
pub(super) fn to_lanes<S: Simd, const N: usize>(simd: S, values: &[f32]) -> [Lanes; N] {
    let mut places = [[0.0; LANES]; N];
    let blocks = values.as_chunks::<N>().0;
    for (part, places) in places.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
        let mut tile = [[0; TILE]; TILE];
        for (row, block) in tile.iter_mut().zip(blocks) {
            let block = &block.as_chunks::<TILE>().0[part];
            *row = each!(k => block[k].to_bits());
        }
        for (place, row) in places.iter_mut().zip(simd.transpose(&tile)) {
            *place = each!(k => f32::from_bits(row[k]));
        }
    }
    places
}

/// `nearest_int` of ggml: rounds to the nearest integer, ties to even, through the mantissa of `value + 1.5 · 2²³`.
/// Beyond ±2²², and for NaN, the result is whatever those bits are, as in ggml.
#[inline(always)]
pub(super) fn nearest_int(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007F_FFFF) as i32 - 0x0040_0000
}

/// `MAX` of ggml: the second argument if they are unordered.
#[inline(always)]
pub(super) fn c_max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `GROUP_MAX_EPS` of ggml: a sub-block whose largest magnitude is below this has scale zero.
pub(super) const GROUP_MAX_EPS: f32 = 1e-15;

/// Values per super-block.
pub(super) const QK_K: usize = 256;

/// The sum of squares, in order.
#[inline(always)]
pub(super) fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// `1 / scale`, or 0 for a scale of 0.
#[inline(always)]
pub(super) fn reciprocal(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The value of the largest magnitude (the first of several) and its magnitude: `max` and `amax` of ggml.
#[inline(always)]
pub(super) fn max_by_magnitude(values: &[f32]) -> (f32, f32) {
    let (mut found, mut size) = (0.0, 0.0);
    for &value in values {
        let is_larger = value.abs() > size;
        found = if is_larger { value } else { found };
        size = if is_larger { value.abs() } else { size };
    }
    (found, size)
}

/// The bits of infinity. Bits of magnitudes compare like the magnitudes; those of NaN are larger.
const INFINITY_BITS: i32 = f32::INFINITY.to_bits() as i32;

/// The bits of the magnitudes.
#[inline(always)]
fn magnitude_bits(values: &[f32; GROUP]) -> [i32; GROUP] {
    map!(value in values => (value.to_bits() & 0x7FFF_FFFF) as i32)
}

/// The largest bits of the magnitudes of whole groups or of half a group.
#[inline(always)]
fn largest_bits<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> i32 {
    let (groups, rest) = values.as_chunks::<GROUP>();
    let mut largest = if rest.is_empty() { [0; GROUP] } else { magnitude_bits(&pad(rest)) };
    for group in groups {
        largest = simd.larger(&largest, &magnitude_bits(group));
    }
    simd.largest(&largest)
}

/// The value of the largest magnitude of a block.
#[inline(always)]
pub(super) fn block_max<S: Simd>(simd: S, values: &[f32; GROUP]) -> f32 {
    let bits = magnitude_bits(values);
    match simd.largest(&bits) {
        0 => 0.0,
        largest if largest > INFINITY_BITS => max_by_magnitude(values).0,
        largest => values[simd.equal(&bits, largest).trailing_zeros() as usize % GROUP],
    }
}

/// The smallest and the largest value, the first of several.
#[inline(always)]
pub(super) fn min_max<S: Simd>(simd: S, values: &[f32; GROUP]) -> (f32, f32) {
    // Keys in the order of all numbers, −0.0 before +0.0; their complements are in the opposite order.
    let keys = map!(value in values => {
        let bits = value.to_bits().cast_signed();
        bits ^ (bits >> 31 & i32::MAX)
    });
    let value = |key: i32| f32::from_bits((key ^ (key >> 31 & i32::MAX)).cast_unsigned());
    let (low, high) = (value(!simd.largest(&map!(key in keys => !key))), value(simd.largest(&keys)));
    let is_ordinary = |value: f32| value.is_finite() && value != 0.0;
    if is_ordinary(low) && is_ordinary(high) {
        return (low, high);
    }
    // Signed zeros and NaN depend on the order of comparisons.
    values.iter().fold((f32::MAX, -f32::MAX), |(low, high), &value| {
        (if value < low { value } else { low }, if value > high { value } else { high })
    })
}

/// The largest magnitude as `MAX` of ggml finds it: a NaN discards everything before it.
#[inline(always)]
pub(super) fn amax<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> f32 {
    let largest = largest_bits(simd, values);
    if largest > INFINITY_BITS {
        return values.iter().fold(0.0, |size, value| c_max(size, value.abs()));
    }
    f32::from_bits(largest.cast_unsigned())
}

/// The largest magnitude, ignoring NaN.
#[inline(always)]
pub(super) fn amax_without_nan<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> f32 {
    let largest = largest_bits(simd, values);
    if largest > INFINITY_BITS { max_by_magnitude(values).1 } else { f32::from_bits(largest.cast_unsigned()) }
}

/// `importance · sqrt(variance + value²)`.
#[inline(always)]
pub(super) fn importance_weights<const N: usize>(
    values: &[Lanes; N],
    importance: &[Lanes; N],
    variance: &Lanes,
) -> [Lanes; N] {
    let mut weights = [[0.0; LANES]; N];
    for i in 0..N {
        for k in 0..LANES {
            weights[i][k] = importance[i][k] * (variance[k] + values[i][k] * values[i][k]).sqrt();
        }
    }
    weights
}
