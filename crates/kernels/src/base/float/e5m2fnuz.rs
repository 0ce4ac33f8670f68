//! E5M2FNUZ: E5M2 with finite values in place of infinities and a single zero.
//!
//! | bits | 7 | 6–2 | 1–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 16 | mantissa |
//!
//! No infinities, no −0; 0x80 is the only NaN; the largest number is 57344. Values out of range are encoded as NaN.

use super::{Format8, NAN, power_of_two, round_magnitude};

/// The format E5M2FNUZ.
#[derive(Clone, Copy, Debug)]
pub struct E5m2Fnuz;

impl Format8 for E5m2Fnuz {
    const NAME: &'static str = "e5m2fnuz";
    const SIGNED: bool = false;

    #[inline(always)]
    fn decode(code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7F);
        let sign = u32::from(code & 0x80) << 24;
        let normal = (magnitude << 21) + power_of_two(-16);
        let subnormal = (magnitude as i32 as f32 * f32::from_bits(power_of_two(-17))).to_bits();
        let finite = if magnitude < 4 { subnormal } else { normal };
        f32::from_bits(if code == 0x80 { NAN } else { sign | finite })
    }

    #[inline(always)]
    fn encode(value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        // 65536, infinity and NaN all become 0x80; rounding carries 61440 and above there too.
        let code = round_magnitude::<2, 16>(magnitude.min(power_of_two(16)));
        let sign = if code == 0 { 0 } else { (bits >> 24) & 0x80 };
        (sign | code) as u8
    }
}
