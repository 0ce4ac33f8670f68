//! The small float formats, one file each with decoder and encoder.
//!
//! | format | sign, exponent, mantissa | bias | infinities | NaN |
//! |---|---|---|---|---|
//! | [`bf16`] | 1, 8, 7 | 127 | yes | exponent all ones, mantissa not zero |
//! | [`mod@f16`] | 1, 5, 10 | 15 | yes | exponent all ones, mantissa not zero |
//! | [`e4m3`] | 1, 4, 3 | 7 | no | all ones but the sign |
//! | [`e5m2`] | 1, 5, 2 | 15 | yes | exponent all ones, mantissa not zero |
//! | [`e4m3fnuz`] | 1, 4, 3 | 8 | no | 0x80; there is no −0 |
//! | [`e5m2fnuz`] | 1, 5, 2 | 16 | no | 0x80; there is no −0 |
//! | [`e8m0`] | 0, 8, 0 | 127 | no | 0xFF; there is no zero |
//! | [`e2m1`] | 1, 2, 1 | 1 | no | none |
//!
//! Encoding rounds to nearest, ties to even. No decoder computes an intermediate `f32` subnormal: that would cost a
//! microcode assist per operation.

pub(crate) mod away;
pub mod bf16;
pub mod e2m1;
pub mod e4m3;
pub mod e4m3fnuz;
pub mod e5m2;
pub mod e5m2fnuz;
pub mod e8m0;
pub mod f16;
pub(crate) mod fused;

use crate::base::GROUP;
use crate::base::simd::Simd;

pub use e4m3::E4m3;
pub use e4m3fnuz::E4m3Fnuz;
pub use e5m2::E5m2;
pub use e5m2fnuz::E5m2Fnuz;
pub use e8m0::E8m0;
pub use fused::Fused;

/// An eight-bit float format.
pub trait Format8: Copy + Send + Sync + 'static {
    /// The format's name, as in the table of [`float`](self).
    const NAME: &'static str;
    /// Whether bit 7 is only a sign, so that a table of 128 magnitudes covers the format.
    const SIGNED: bool;

    /// The value of a code.
    fn decode(code: u8) -> f32;

    /// The code nearest to a value, ties to even.
    fn encode(value: f32) -> u8;

    /// The values of a group of codes.
    #[inline(always)]
    fn decode_group<S: Simd>(_simd: S, codes: &[u8; GROUP]) -> [f32; GROUP] {
        map!(code in codes => Self::decode(code))
    }
}

/// Bits of +∞; every larger magnitude is NaN.
const INFINITY: u32 = 0x7F80_0000;

/// Bits of the quiet NaN that decoders produce.
const NAN: u32 = 0x7FC0_0000;

/// The NaN that arithmetic yields on this target, for ∞ × 0 for example: x86 sets its sign.
pub const DEFAULT_NAN: f32 =
    f32::from_bits(if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { NAN | 0x8000_0000 } else { NAN });

/// The value, with every NaN replaced by [`DEFAULT_NAN`].
///
/// Which of two NaN operands a multiplication or an addition returns depends on the order of the operands, which the
/// compiler chooses. Scales, zero points and tables, or results computed from them, go through this: if all NaNs are
/// equal, the order does not matter.
#[inline(always)]
pub(crate) fn canonical_nan(value: f32) -> f32 {
    if value.is_nan() { DEFAULT_NAN } else { value }
}

/// `value * factor`; if both are NaN the result is `value`, which carries the sign of the code.
#[inline(always)]
pub(crate) fn times(value: f32, factor: f32) -> f32 {
    if value.is_nan() { f32::from_bits(value.to_bits() | 0x0040_0000) } else { value * factor }
}

/// Bits of the `f32` 2^`exponent`, for exponents of normal numbers.
const fn power_of_two(exponent: i32) -> u32 {
    ((exponent + 127) as u32) << 23
}

/// Rounds the bits of a non-negative `f32` to the nearest code of a format with subnormals, ties to even.
///
/// Exponents beyond the format give codes beyond it; the caller clamps the input or the result.
#[inline(always)]
fn round_magnitude<const MANTISSA_BITS: u32, const BIAS: i32>(magnitude: u32) -> u32 {
    let shift = 23 - MANTISSA_BITS;
    let least_normal = power_of_two(1 - BIAS);
    let odd = (magnitude >> shift) & 1;
    let half = (1 << (shift - 1)) - 1;
    let normal = magnitude.wrapping_sub(power_of_two(-BIAS)).wrapping_add(half + odd) >> shift;
    // At this magnitude the last mantissa bit of an `f32` is the smallest subnormal of the format, so the addition
    // rounds.
    let anchor = power_of_two(1 - BIAS + shift as i32);
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(anchor)).to_bits().wrapping_sub(anchor);
    if magnitude < least_normal { subnormal } else { normal }
}
