//! Sums, extremes and counts of a block.

use super::LANES;
use crate::base::simd::Simd;

/// Sums, extremes and counts per lane. Sums and extremes are those of finite values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The sum.
    pub sum: [f64; LANES],
    /// The least value; infinite if there is none.
    pub min: [f32; LANES],
    /// The greatest value; negative infinity if there is none.
    pub max: [f32; LANES],
    /// The number of zeros of either sign.
    pub zeros: [u32; LANES],
    /// The number of NaNs.
    pub nan: [u32; LANES],
    /// The number of infinities of either sign.
    pub infinite: [u32; LANES],
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            sum: [0.0; LANES],
            min: [f32::INFINITY; LANES],
            max: [f32::NEG_INFINITY; LANES],
            zeros: [0; LANES],
            nan: [0; LANES],
            infinite: [0; LANES],
        }
    }
}

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const INFINITY: u32 = 0x7F80_0000;

kernel! {
    /// Adds the values of a block to `moments`. Returns how many were added.
    pub fn measure_moments(values: &[[u8; 4]], moments: &mut Moments) = moments_body
}

#[inline(always)]
fn moments_body<S: Simd>(_simd: S, values: &[[u8; 4]], moments: &mut Moments) -> usize {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut now = *moments;
    for values in whole {
        for (lane, value) in values.iter().enumerate() {
            add(&mut now, lane, *value);
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        add(&mut now, lane, *value);
    }
    *moments = now;
    values.len()
}

#[inline(always)]
fn add(now: &mut Moments, lane: usize, value: [u8; 4]) {
    let bits = u32::from_le_bytes(value);
    let magnitude = bits & MAGNITUDE;
    let is_finite = magnitude < INFINITY;
    let value = f32::from_bits(bits);
    now.sum[lane] += f64::from(if is_finite { value } else { 0.0 });
    let low = if is_finite { value } else { f32::INFINITY };
    let high = if is_finite { value } else { f32::NEG_INFINITY };
    now.min[lane] = if low < now.min[lane] { low } else { now.min[lane] };
    now.max[lane] = if high > now.max[lane] { high } else { now.max[lane] };
    now.zeros[lane] += u32::from(magnitude == 0);
    now.nan[lane] += u32::from(magnitude > INFINITY);
    now.infinite[lane] += u32::from(magnitude == INFINITY);
}

kernel! {
    /// Adds the squared distances of the finite values of a block from `mean` to `squares`. Returns how many values
    /// were read.
    pub fn add_squares(values: &[[u8; 4]], mean: f64, squares: &mut [f64; LANES]) = squares_body
}

#[inline(always)]
fn squares_body<S: Simd>(_simd: S, values: &[[u8; 4]], mean: f64, squares: &mut [f64; LANES]) -> usize {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut now = *squares;
    for values in whole {
        for i in 0..LANES {
            now[i] += square(values[i], mean);
        }
    }
    now.iter_mut().zip(rest).for_each(|(now, value)| *now += square(*value, mean));
    *squares = now;
    values.len()
}

#[inline(always)]
fn square(value: [u8; 4], mean: f64) -> f64 {
    let bits = u32::from_le_bytes(value);
    let distance = f64::from(f32::from_bits(bits)) - mean;
    if bits & MAGNITUDE < INFINITY { distance * distance } else { 0.0 }
}

kernel! {
    /// Adds the number of finite values of a block that are further than `limit` from `mean` to `outliers`, per lane.
    /// Returns how many values were read.
    pub fn count_outliers(values: &[[u8; 4]], mean: f64, limit: f64, outliers: &mut [u32; LANES]) = outliers_body
}

#[inline(always)]
fn outliers_body<S: Simd>(_simd: S, values: &[[u8; 4]], mean: f64, limit: f64, outliers: &mut [u32; LANES]) -> usize {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut now = *outliers;
    let is_outlier = |value: [u8; 4]| {
        let bits = u32::from_le_bytes(value);
        let distance = (f64::from(f32::from_bits(bits)) - mean).abs();
        u32::from((bits & MAGNITUDE < INFINITY) & (distance > limit))
    };
    for values in whole {
        for i in 0..LANES {
            now[i] += is_outlier(values[i]);
        }
    }
    now.iter_mut().zip(rest).for_each(|(now, value)| *now += is_outlier(*value));
    *outliers = now;
    values.len()
}
