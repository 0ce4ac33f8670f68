//! E4M3, the finite variant ("FN"): the usual format of eight-bit weights.
//!
//! | bits | 7 | 6–3 | 2–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 7 | mantissa |
//!
//! No infinities; 0x7F and 0xFF are NaN; the largest number is 448. Encoding saturates at ±448, infinities included;
//! only NaN becomes NaN.

use super::{Format8, INFINITY, power_of_two, round_magnitude};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The `f32` NaN of its NaN codes: exponent all ones, the mantissa bits of the code.
const QUIET: u32 = 0x7FF0_0000;

/// The format E4M3 (FN).
#[derive(Clone, Copy, Debug)]
pub struct E4m3;

impl Format8 for E4m3 {
    const NAME: &'static str = "e4m3";
    const SIGNED: bool = true;

    #[inline(always)]
    fn decode(code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7F);
        let sign = u32::from(code & 0x80) << 24;
        let normal = (magnitude << 20) + power_of_two(-7);
        let subnormal = (magnitude as i32 as f32 * f32::from_bits(power_of_two(-9))).to_bits();
        let finite = if magnitude < 8 { subnormal } else { normal };
        f32::from_bits(sign | if magnitude == 0x7F { QUIET } else { finite })
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let rounded = round_magnitude::<3, 7>(magnitude.min(448f32.to_bits()));
        let code = if magnitude > INFINITY { 0x7F } else { rounded };
        ((bits >> 24) & 0x80 | code) as u8
    }

    #[inline(always)]
    fn decode_group<S: Simd>(simd: S, codes: &[u8; GROUP]) -> [f32; GROUP] {
        simd.widen_e4m3(codes)
    }
}
