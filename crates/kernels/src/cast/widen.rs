//! Little-endian float formats widened to `f32`, for scale tensors.
//!
//! All conversions are exact.

use crate::base::GROUP;
use crate::base::float::{E8m0, Format8, bf16};
use crate::base::group::pad;
use crate::base::level::Level;
use crate::base::simd::Simd;

/// The meaning of the byte 255 of an E8M0 scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopExponent {
    /// NaN, as the format defines.
    Nan,
    /// Infinity, as for an `f32` with that exponent.
    Infinity,
}

kernel! {
    /// Widens BF16, two bytes each.
    ///
    /// ```
    /// use anamnesis_kernels::{Level, widen_bf16};
    ///
    /// let mut scales = [0.0; 1];
    /// widen_bf16(Level::detect(), &[0x80, 0x3F], &mut scales);
    /// assert_eq!(scales, [1.0]);
    /// ```
    pub fn widen_bf16(bytes: &[u8], out: &mut [f32]) = bf16_body
}

kernel! {
    /// Widens half precision, two bytes each; signalling NaN becomes quiet.
    pub fn widen_f16(bytes: &[u8], out: &mut [f32]) = f16_body
}

kernel! {
    /// Widens an eight-bit format, one byte each.
    pub fn widen_format8<F: Format8>(bytes: &[u8], out: &mut [f32]) = format8_body
}

/// Copies `f32`, four bytes each; the same code at every level.
#[must_use = "output past the returned count keeps its old contents"]
pub fn widen_f32(_level: Level, bytes: &[u8], out: &mut [f32]) -> usize {
    let bytes = bytes.as_chunks::<4>().0;
    let written = out.len().min(bytes.len());
    for (value, bytes) in out.iter_mut().zip(bytes) {
        *value = f32::from_le_bytes(*bytes);
    }
    written
}

/// Widens E8M0, one byte each.
#[must_use = "output past the returned count keeps its old contents"]
pub fn widen_e8m0(level: Level, bytes: &[u8], out: &mut [f32], top: TopExponent) -> usize {
    match top {
        TopExponent::Nan => widen_format8::<E8m0>(level, bytes, out),
        TopExponent::Infinity => e8m0_infinity(level, bytes, out),
    }
}

kernel! {
    fn e8m0_infinity(bytes: &[u8], out: &mut [f32]) = e8m0_infinity_body
}

/// `walk_bytes!(BYTES, group in bytes => values, out)`: the values of each group of `BYTES`-wide elements.
macro_rules! walk_bytes {
    ($bytes_each:literal, $group:ident in $bytes:ident => $values:expr, $out:ident) => {{
        let elements = $bytes.as_chunks::<$bytes_each>().0;
        let elements = &elements[..elements.len().min($out.len())];
        let (groups, rest) = elements.as_chunks::<GROUP>();
        let (whole, tail) = $out[..elements.len()].as_chunks_mut::<GROUP>();
        for ($group, out) in groups.iter().zip(whole) {
            *out = $values;
        }
        let $group = &pad(rest);
        for (out, value) in tail.iter_mut().zip($values) {
            *out = value;
        }
        elements.len()
    }};
}

#[inline(always)]
fn bf16_body<S: Simd>(_simd: S, bytes: &[u8], out: &mut [f32]) -> usize {
    walk_bytes!(2, group in bytes => map!(pair in group => bf16::decode(u16::from_le_bytes(pair))), out)
}

#[inline(always)]
fn f16_body<S: Simd>(simd: S, bytes: &[u8], out: &mut [f32]) -> usize {
    walk_bytes!(2, group in bytes => simd.widen_f16(&map!(pair in group => u16::from_le_bytes(pair))), out)
}

#[inline(always)]
fn format8_body<S: Simd, F: Format8>(simd: S, bytes: &[u8], out: &mut [f32]) -> usize {
    walk_bytes!(1, group in bytes => F::decode_group(simd, &map!(single in group => single[0])), out)
}

#[inline(always)]
fn e8m0_infinity_body<S: Simd>(simd: S, bytes: &[u8], out: &mut [f32]) -> usize {
    walk_bytes!(1, group in bytes => {
        let values = E8m0::decode_group(simd, &map!(single in group => single[0]));
        map!(value in values => if value.is_nan() { f32::INFINITY } else { value })
    }, out)
}
