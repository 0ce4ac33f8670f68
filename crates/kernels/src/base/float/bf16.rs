//! BF16: the upper half of an `f32`.
//!
//! | bits | 15 | 14–7 | 6–0 |
//! |---|---|---|---|
//! | | sign | exponent, bias 127 | mantissa |

/// The value of a BF16, exactly.
#[inline(always)]
pub fn decode(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest BF16, ties to even; NaN keeps its sign and upper payload and becomes quiet.
#[inline(always)]
pub fn encode(value: f32) -> u16 {
    // Rounding would carry an all-ones NaN into the sign and make it zero.
    let quiet = (value.to_bits() >> 16) as u16 | 0x40;
    let number = encode_number(value);
    if value.is_nan() { quiet } else { number }
}

/// [`decode`] of [`encode_number`], computed on the bits of the `f32`.
#[inline(always)]
pub(crate) fn round_number(value: f32) -> f32 {
    let bits = value.to_bits();
    let odd = (bits >> 16) & 1;
    f32::from_bits(bits.wrapping_add(0x7FFF + odd) & 0xFFFF_0000)
}

/// [`encode`] for numbers, infinities and those NaNs that are quiet and not all ones.
#[inline(always)]
pub(crate) fn encode_number(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = (bits >> 16) & 1;
    (bits.wrapping_add(0x7FFF + odd) >> 16) as u16
}
