//! Kernels that measure values: moments, histograms and differences of one block of `f32` values in little endian.
//!
//! Sums are `f64`, per lane: the value at index `i` of a block belongs to lane `i % LANES`, and every lane is summed in
//! order of index. The results are the same at every CPU level.

mod difference;
mod histogram;
mod moments;

pub use difference::{Difference, measure_difference};
pub use histogram::{NEAR_BINS, NOT_FINITE, count_bins, count_near_bins};
pub use moments::{Moments, add_squares, count_outliers, measure_moments};

/// Lanes that are summed independently.
pub const LANES: usize = 8;

/// The sum of all lanes: halves are added until one is left.
///
/// ```
/// use anamnesis_kernels::measure::sum_of_lanes;
/// assert_eq!(sum_of_lanes([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), 36.0);
/// ```
#[must_use]
pub fn sum_of_lanes(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
