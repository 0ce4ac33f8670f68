//! E4M3FNUZ: E4M3 with one more exponent and a single zero.
//!
//! | bits | 7 | 6–3 | 2–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 8 | mantissa |
//!
//! No infinities, no −0; 0x80 is the only NaN; the largest number is 240. Values out of range are encoded as NaN.

use super::{Format8, NAN, power_of_two, round_magnitude};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The format E4M3FNUZ.
#[derive(Clone, Copy, Debug)]
pub struct E4m3Fnuz;

impl Format8 for E4m3Fnuz {
    const NAME: &'static str = "e4m3fnuz";
    const SIGNED: bool = false;

    #[inline(always)]
    fn decode(code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7F);
        let sign = u32::from(code & 0x80) << 24;
        let normal = (magnitude << 20) + power_of_two(-8);
        let subnormal = (magnitude as i32 as f32 * f32::from_bits(power_of_two(-10))).to_bits();
        let finite = if magnitude < 8 { subnormal } else { normal };
        f32::from_bits(if code == 0x80 { NAN } else { sign | finite })
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        // 256, infinity and NaN all become 0x80; rounding carries 248 and above there too.
        let code = round_magnitude::<3, 8>(magnitude.min(power_of_two(8)));
        let sign = if code == 0 { 0 } else { (bits >> 24) & 0x80 };
        (sign | code) as u8
    }

    #[inline(always)]
    fn decode_group<S: Simd>(simd: S, codes: &[u8; GROUP]) -> [f32; GROUP] {
        if !S::HALF {
            return map!(code in codes => Self::decode(code));
        }
        // Exponent and mantissa, shifted to those of an F16, are the value divided by 2^7: the biases are 8 and 15.
        let halves = map!(code in codes => {
            let magnitude = u16::from(code & 0x7F) << 7;
            let sign = u16::from(code & 0x80) << 8;
            if code == 0x80 {
                0x7E00
            } else {
                sign | magnitude
            }
        });
        map!(value in simd.widen_f16(&halves) => value * 128.0)
    }
}
