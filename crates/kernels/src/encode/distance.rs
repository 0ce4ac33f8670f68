//! The sums from which the quantisation error is computed, in `f64` and per lane, so that they are the same at every
//! CPU level.

use crate::base::level::Level;
use crate::base::simd::Simd;

/// Lanes that are summed independently.
pub const DISTANCE_LANES: usize = 8;

/// Sums per lane over values `x` and their decoded values `y`: `|x − y|`, `(x − y)²`, `x²`, `y²` and `x · y`.
pub type DistanceSums = [[f64; DISTANCE_LANES]; 5];

/// Adds the error between `before` and `after` (`f32` in little endian) to `sums`. The value at index `i` belongs to
/// lane `i % DISTANCE_LANES`. Returns how many values were added.
///
/// ```
/// use anamnesis_kernels::{DistanceSums, Level, add_distance};
///
/// let mut sums = DistanceSums::default();
/// add_distance(Level::detect(), &[1.0, 2.0], &[1.5f32, 2.0].map(f32::to_le_bytes).concat(), &mut sums);
/// assert_eq!((sums[0][0], sums[1][0], sums[4][1]), (0.5, 0.25, 4.0));
/// ```
#[must_use = "values past the returned count are missing in the sums"]
pub fn add_distance(level: Level, before: &[f32], after: &[u8], sums: &mut DistanceSums) -> usize {
    distance(level, before, after.as_chunks::<4>().0, sums)
}

kernel! {
    fn distance(before: &[f32], after: &[[u8; 4]], sums: &mut DistanceSums) = body
}

#[inline(always)]
fn body<S: Simd>(_simd: S, before: &[f32], after: &[[u8; 4]], sums: &mut DistanceSums) -> usize {
    let (whole, rest) = before.as_chunks::<DISTANCE_LANES>();
    let (whole_after, rest_after) = after.as_chunks::<DISTANCE_LANES>();
    let [mut absolute, mut squared, mut energy, mut energy_after, mut product] = *sums;
    for (before, after) in whole.iter().zip(whole_after) {
        for i in 0..DISTANCE_LANES {
            let (x, y) = (f64::from(before[i]), f64::from(f32::from_le_bytes(after[i])));
            let difference = x - y;
            absolute[i] += difference.abs();
            squared[i] += difference * difference;
            energy[i] += x * x;
            energy_after[i] += y * y;
            product[i] += x * y;
        }
    }
    *sums = [absolute, squared, energy, energy_after, product];
    let mut added = whole.len().min(whole_after.len()) * DISTANCE_LANES;
    if whole.len() == whole_after.len() {
        added += rest.len().min(rest_after.len());
        for (lane, (x, y)) in rest.iter().zip(rest_after).enumerate() {
            let (x, y) = (f64::from(*x), f64::from(f32::from_le_bytes(*y)));
            let difference = x - y;
            let terms = [difference.abs(), difference * difference, x * x, y * y, x * y];
            sums.iter_mut().zip(terms).for_each(|(sums, term)| sums[lane] += term);
        }
    }
    added
}
