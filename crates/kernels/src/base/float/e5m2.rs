//! E5M2: the upper half of an F16.
//!
//! | bits | 7 | 6–2 | 1–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 15 | mantissa |
//!
//! Infinities and NaN as in F16. Values out of range are encoded as infinity; NaN becomes 0x7F with its sign.

use super::{Format8, INFINITY, f16, power_of_two, round_magnitude};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The format E5M2.
#[derive(Clone, Copy, Debug)]
pub struct E5m2;

impl Format8 for E5m2 {
    const NAME: &'static str = "e5m2";
    const SIGNED: bool = true;

    #[inline(always)]
    fn decode(code: u8) -> f32 {
        f16::decode(u16::from(code) << 8)
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        // From 65536 on every value is infinite; rounding carries 61440 and above there too.
        let rounded = round_magnitude::<2, 15>(magnitude.min(power_of_two(16)));
        let code = if magnitude > INFINITY { 0x7F } else { rounded };
        ((bits >> 24) & 0x80 | code) as u8
    }

    #[inline(always)]
    fn decode_group<S: Simd>(simd: S, codes: &[u8; GROUP]) -> [f32; GROUP] {
        simd.widen_f16(&map!(code in codes => u16::from(code) << 8))
    }
}
