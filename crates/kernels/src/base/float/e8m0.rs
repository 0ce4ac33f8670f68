//! E8M0: a power of two, used as a scale.
//!
//! The byte is an exponent with bias 127: 0 is 2^−127, 254 is 2^127, 255 is NaN. There is no sign and no zero.
//! Encoding takes the nearest power of two, ties to the larger one, and ignores the sign; infinities become NaN.

use super::{Format8, INFINITY, NAN};

/// The format E8M0.
#[derive(Clone, Copy, Debug)]
pub struct E8m0;

/// 2^−127, the only value that is subnormal as an `f32`.
const LEAST: u32 = 0x0040_0000;

impl Format8 for E8m0 {
    const NAME: &'static str = "e8m0";
    const SIGNED: bool = false;

    #[inline(always)]
    fn decode(code: u8) -> f32 {
        let bits = u32::from(code) << 23;
        let number = if bits == 0 { LEAST } else { bits };
        f32::from_bits(if bits == INFINITY { NAN } else { number })
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        let magnitude = value.to_bits() & 0x7FFF_FFFF;
        let exponent = magnitude >> 23;
        // Among `f32` subnormals the midpoint of 2^−127 and 2^−126 is below half of the mantissa; the format rounds
        // there by the top mantissa bit alone, and exactly 2^−127 stays.
        let half = if exponent == 0 { 0x003F_FFFF } else { 0x0040_0000 };
        ((magnitude + half) >> 23).min(0xFF) as u8
    }
}
