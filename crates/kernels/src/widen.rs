//! Little-endian bytes of the float formats widened to `f32`: scale tensors on their way into a kernel.
//!
//! All of these are exact.

use crate::GROUP;
use crate::float::{E8m0, Format8, bf16};
use crate::level::Level;
use crate::simd::Simd;

/// What the byte 255 of an E8M0 scale means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopExponent {
    /// NaN, as the format says.
    Nan,
    /// Infinity, as arithmetic on the bare exponent gives.
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

/// Copies `f32`, four bytes each, the same at every level.
pub fn widen_f32(_level: Level, bytes: &[u8], out: &mut [f32]) {
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*bytes);
    }
}

/// Widens E8M0, one byte each, whatever its top exponent means.
pub fn widen_e8m0(level: Level, bytes: &[u8], out: &mut [f32], top: TopExponent) {
    match top {
        TopExponent::Nan => widen_format8::<E8m0>(level, bytes, out),
        TopExponent::Infinity => e8m0_infinity(level, bytes, out),
    }
}

kernel! {
    fn e8m0_infinity(bytes: &[u8], out: &mut [f32]) = e8m0_infinity_body
}

/// Walks groups of `BYTES`-wide elements, the last one padded.
#[inline(always)]
fn walk<const BYTES: usize>(
    bytes: &[u8],
    out: &mut [f32],
    widen: impl Fn(&[[u8; BYTES]; GROUP]) -> [f32; GROUP],
) {
    let elements = bytes.as_chunks::<BYTES>().0;
    let elements = &elements[..elements.len().min(out.len())];
    let (groups, rest) = elements.as_chunks::<GROUP>();
    let (whole, tail) = out[..elements.len()].as_chunks_mut::<GROUP>();
    for (group, out) in groups.iter().zip(whole) {
        *out = widen(group);
    }
    let mut padded = [[0; BYTES]; GROUP];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    for (out, value) in tail.iter_mut().zip(widen(&padded)) {
        *out = value;
    }
}

#[inline(always)]
fn bf16_body<S: Simd>(_simd: S, bytes: &[u8], out: &mut [f32]) {
    walk::<2>(bytes, out, |group| {
        group.map(|pair| bf16::decode(u16::from_le_bytes(pair)))
    });
}

#[inline(always)]
fn f16_body<S: Simd>(simd: S, bytes: &[u8], out: &mut [f32]) {
    walk::<2>(bytes, out, |group| {
        simd.widen_f16(&group.map(u16::from_le_bytes))
    });
}

#[inline(always)]
fn format8_body<S: Simd, F: Format8>(simd: S, bytes: &[u8], out: &mut [f32]) {
    walk::<1>(bytes, out, |group| {
        F::decode_group(simd, &group.map(|[code]| code))
    });
}

#[inline(always)]
fn e8m0_infinity_body<S: Simd>(_simd: S, bytes: &[u8], out: &mut [f32]) {
    walk::<1>(bytes, out, |group| {
        group.map(|[code]| {
            f32::from_bits(if code == 0 {
                0x0040_0000
            } else {
                u32::from(code) << 23
            })
        })
    });
}
