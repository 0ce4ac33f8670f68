//! The largest difference of two blocks, and the number of values whose bits differ.

use super::LANES;
use crate::base::simd::Simd;

/// Differences per lane.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Difference {
    /// The largest magnitude of `x − y`, over pairs of finite values.
    pub largest: [f64; LANES],
    /// The number of pairs whose bits differ.
    pub unequal: [u32; LANES],
    /// The number of those of which a value is not finite, unless both are NaN.
    pub incomparable: [u32; LANES],
    /// The number of pairs that are not both finite.
    pub not_finite: [u32; LANES],
}

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const INFINITY: u32 = 0x7F80_0000;

kernel! {
    /// Adds pairs of values to `difference`. Returns how many pairs were added.
    pub fn measure_difference(first: &[[u8; 4]], second: &[[u8; 4]], difference: &mut Difference) = body
}

#[inline(always)]
fn body<S: Simd>(_simd: S, first: &[[u8; 4]], second: &[[u8; 4]], difference: &mut Difference) -> usize {
    let count = first.len().min(second.len());
    let (first, second) = (&first[..count], &second[..count]);
    let mut now = *difference;
    let ((whole, rest), (whole_second, rest_second)) = (first.as_chunks::<LANES>(), second.as_chunks::<LANES>());
    for (first, second) in whole.iter().zip(whole_second) {
        for i in 0..LANES {
            add(&mut now, i, first[i], second[i]);
        }
    }
    for (lane, (first, second)) in rest.iter().zip(rest_second).enumerate() {
        add(&mut now, lane, *first, *second);
    }
    *difference = now;
    count
}

#[inline(always)]
fn add(now: &mut Difference, lane: usize, first: [u8; 4], second: [u8; 4]) {
    let (a, b) = (u32::from_le_bytes(first), u32::from_le_bytes(second));
    let is_finite = (a & MAGNITUDE < INFINITY) & (b & MAGNITUDE < INFINITY);
    let distance = (f64::from(f32::from_bits(a)) - f64::from(f32::from_bits(b))).abs();
    let distance = if is_finite { distance } else { 0.0 };
    now.largest[lane] = if distance > now.largest[lane] { distance } else { now.largest[lane] };
    now.unequal[lane] += u32::from(a != b);
    let is_nan = (a & MAGNITUDE > INFINITY) & (b & MAGNITUDE > INFINITY);
    now.incomparable[lane] += u32::from((a != b) & !is_finite & !is_nan);
    now.not_finite[lane] += u32::from(!is_finite);
}
