//! F16: IEEE half precision.
//!
//! | bits | 15 | 14–10 | 9–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 15 | mantissa |
//!
//! Both directions give the bits of the x86 instructions `vcvtph2ps` and `vcvtps2ph`.

use super::{INFINITY, power_of_two, round_magnitude};

/// The value of an F16, exactly; signalling NaN becomes quiet.
#[inline(always)]
pub fn decode(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7FFF);
    let sign = u32::from(bits & 0x8000) << 16;
    let normal = (magnitude << 13) + power_of_two(-15);
    let subnormal = (magnitude as i32 as f32 * f32::from_bits(power_of_two(-24))).to_bits();
    let special = (magnitude << 13) | INFINITY | (if magnitude > 0x7C00 { 0x0040_0000 } else { 0 });
    let finite = if magnitude < 0x0400 { subnormal } else { normal };
    f32::from_bits(sign | if magnitude >= 0x7C00 { special } else { finite })
}

/// The nearest F16, ties to even; NaN keeps its sign and upper payload and becomes quiet.
#[inline(always)]
pub fn encode(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    // From 65536 on every value is infinite; rounding carries 65520 and above there too.
    let rounded = round_magnitude::<10, 15>(magnitude.min(power_of_two(16)));
    let quiet = 0x7E00 | ((magnitude >> 13) & 0x03FF);
    let word = if magnitude > INFINITY { quiet } else { rounded };
    ((bits >> 16) & 0x8000 | word) as u16
}
