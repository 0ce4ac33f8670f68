//! E2M1: the four-bit float of MXFP4 and NVFP4.
//!
//! | bits | 3 | 2–1 | 0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 1 | mantissa |
//!
//! The magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4, 6. There is neither infinity nor NaN: encoding saturates at ±6, and NaN
//! becomes a zero of the opposite sign, as in `ml_dtypes`.

use super::{INFINITY, power_of_two, round_magnitude};

/// The value of the code in the low four bits; the upper four are ignored.
#[inline(always)]
pub fn decode(code: u8) -> f32 {
    let magnitude = u32::from(code & 7);
    let sign = u32::from(code & 8) << 28;
    let normal = (magnitude << 22) + power_of_two(-1);
    let subnormal = (magnitude as i32 as f32 * 0.5).to_bits();
    f32::from_bits(sign | if magnitude < 2 { subnormal } else { normal })
}

/// The nearest code, ties to even.
#[inline(always)]
pub fn encode(value: f32) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    let sign = (bits >> 28) & 8;
    let code = round_magnitude::<1, 1>(magnitude.min(6f32.to_bits()));
    (if magnitude > INFINITY { sign ^ 8 } else { sign | code }) as u8
}
