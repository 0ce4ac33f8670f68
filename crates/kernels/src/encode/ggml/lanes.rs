//! Sixteen sub-blocks in lanes, and the conversions of C (`nearest_int`, `MAX`).

use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::simd::{Simd, TILE};

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
pub(super) fn side_by_side<S: Simd, const N: usize>(simd: S, values: &[f32]) -> [Lanes; N] {
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

/// The nearest whole number, ties to even, by the addition that leaves no room for a fraction. Beyond four million, and for
/// NaN, it is what the bits are.
#[inline(always)]
pub(super) fn nearest(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007F_FFFF) as i32 - 0x0040_0000
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

/// The value of the largest magnitude, the first of several, and its magnitude.
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

/// The bits of infinity. Those of sizes are in the order of sizes, NaN above.
const INFINITE: i32 = f32::INFINITY.to_bits() as i32;

/// The bits of sizes.
#[inline(always)]
fn size_bits(values: &[f32; GROUP]) -> [i32; GROUP] {
    map!(value in values => (value.to_bits() & 0x7FFF_FFFF) as i32)
}

/// The largest bits of sizes, of some groups or of half a group.
#[inline(always)]
fn largest_bits<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> i32 {
    let (groups, rest) = values.as_chunks::<GROUP>();
    let mut largest = if rest.is_empty() { [0; GROUP] } else { size_bits(&pad(rest)) };
    for group in groups {
        largest = simd.larger(&largest, &size_bits(group));
    }
    simd.largest(&largest)
}

/// [`extreme`] of a block, without its size.
#[inline(always)]
pub(super) fn extreme_of_block<S: Simd>(simd: S, values: &[f32; GROUP]) -> f32 {
    let bits = size_bits(values);
    match simd.largest(&bits) {
        0 => 0.0,
        largest if largest > INFINITE => extreme(values).0,
        largest => values[simd.equal(&bits, largest).trailing_zeros() as usize % GROUP],
    }
}

/// The least and the largest value; of equal ones the first.
#[inline(always)]
pub(super) fn bounds<S: Simd>(simd: S, values: &[f32; GROUP]) -> (f32, f32) {
    // Places in the order of all numbers, −0.0 before +0.0; their complements are in the opposite order.
    let places = map!(value in values => {
        let bits = value.to_bits().cast_signed();
        bits ^ (bits >> 31 & i32::MAX)
    });
    let value = |place: i32| f32::from_bits((place ^ (place >> 31 & i32::MAX)).cast_unsigned());
    let (low, high) = (value(!simd.largest(&map!(place in places => !place))), value(simd.largest(&places)));
    let is_plain = |value: f32| value.is_finite() && value != 0.0;
    if is_plain(low) && is_plain(high) {
        return (low, high);
    }
    // Signed zeros and NaN depend on the order of comparisons.
    values.iter().fold((f32::MAX, -f32::MAX), |(low, high), &value| {
        (if value < low { value } else { low }, if value > high { value } else { high })
    })
}

/// The largest size as C's macro finds it: what comes before a NaN is forgotten.
#[inline(always)]
pub(super) fn size<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> f32 {
    let largest = largest_bits(simd, values);
    if largest > INFINITE {
        return values.iter().fold(0.0, |size, value| larger(size, value.abs()));
    }
    f32::from_bits(largest.cast_unsigned())
}

/// The largest size; NaN has none.
#[inline(always)]
pub(super) fn number_size<S: Simd, const N: usize>(simd: S, values: &[f32; N]) -> f32 {
    let largest = largest_bits(simd, values);
    if largest > INFINITE { extreme(values).1 } else { f32::from_bits(largest.cast_unsigned()) }
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
