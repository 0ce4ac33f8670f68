//! Integer codes with a zero point and a scale for each element: `(code - zero) * scale`.
//!
//! The subtraction is rounded to `f32`, then the multiplication, then the result to the output. Without zero points
//! nothing is subtracted. With an operand per element, testing each for NaN would cost more than the arithmetic: callers
//! make NaNs canonical once, by [`canonical_nans`](crate::canonical_nans), before they use a row of scales many times.
//!
//! The kernels differ in the source of codes and operands:
//!
//! | kernel | codes | zero points and scales |
//! |---|---|---|
//! | [`affine_codes`] | packed | one per element |
//! | [`affine_fields`] | one bit field of each word | one per element |
//! | [`coded_indexed`] | packed | by a group index per element |
//! | [`unpack_codes`] | packed | none |

use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::output::Output;
use crate::base::packing::{Packing, load, numbers};
use crate::base::simd::Simd;
use crate::decode::operands::count_nans;

kernel! {
    /// Decodes `packed` with a zero point and a scale per element and rounds into `out`. NaN operands are
    /// [canonical](crate::canonical_nans).
    ///
    /// ```
    /// use anamnesis_kernels::{F32, Level, LowNibbles, affine_codes};
    ///
    /// let mut out = [0; 8];
    /// affine_codes::<LowNibbles, F32>(Level::detect(), &[0x31], &[0.0, 2.0], &[1.0, 0.5], &mut out);
    /// assert_eq!(out, [[0, 0, 0x80, 0x3F], [0, 0, 0, 0x3F]].concat()[..]); // 1.0 and 0.5
    /// ```
    pub fn affine_codes<P: Packing>(
        packed: &[u8],
        zeros: &[f32],
        scales: &[f32],
    ) -> O in out = codes_body
}

kernel! {
    /// Decodes the field of `bits` bits from bit `shift` of each little-endian word, with a zero point and a scale per
    /// element, and rounds into `out`. NaN operands are [canonical](crate::canonical_nans).
    ///
    /// Fields have at most eight bits; bits past the end of the word are zero.
    pub fn affine_fields(
        words: &[u8],
        shift: u32,
        bits: u32,
        zeros: &[f32],
        scales: &[f32],
    ) -> O in out = fields_body
}

kernel! {
    /// Decodes `packed` with `zeros[groups[i]]` and `scales[groups[i]]` for element `i` and rounds into `out`.
    ///
    /// Indices past the last group select the last group; without scales nothing is written.
    pub fn coded_indexed<P: Packing>(
        packed: &[u8],
        groups: &[u32],
        zeros: &[f32],
        scales: &[f32],
    ) -> O in out = indexed_body
}

kernel! {
    /// Unpacks codes to `f32`.
    ///
    /// ```
    /// use anamnesis_kernels::{Bits3, Level, unpack_codes};
    ///
    /// let mut codes = [0.0; 2];
    /// unpack_codes::<Bits3>(Level::detect(), &[0b00_101_110], &mut codes);
    /// assert_eq!(codes, [6.0, 5.0]);
    /// ```
    pub fn unpack_codes<P: Packing>(packed: &[u8], out: &mut [f32]) = unpack_body
}

/// `(code - zero) * scale` for a group. NaN results are canonical if the NaNs of zero points and scales are.
#[inline(always)]
fn affine(codes: &[f32; GROUP], zeros: &[f32; GROUP], scales: &[f32; GROUP]) -> [f32; GROUP] {
    let mut values = [0.0; GROUP];
    for i in 0..GROUP {
        values[i] = (codes[i] - zeros[i]) * scales[i];
    }
    values
}

/// The same values, NaN canonical.
#[inline(always)]
fn canonical(values: [f32; GROUP]) -> [f32; GROUP] {
    map!(value in values => canonical_nan(value))
}

/// Zero points of +0, whose subtraction changes no bit.
const NO_ZEROS: &[f32; GROUP] = &[0.0; GROUP];

#[inline(always)]
fn codes_body<S: Simd, P: Packing, O: Output>(
    simd: S,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    let elements = P::codes_in(packed.len()).min(scales.len()).min(out.len() / O::BYTES);
    if zeros.is_empty() {
        walk_packed!(P, O, elements, group in packed, scales in scales => {
            O::round_products(simd, &affine(&numbers::<S, P>(simd, group), NO_ZEROS, scales))
        }, out)
    } else {
        let elements = elements.min(zeros.len());
        walk_packed!(P, O, elements, group in packed, zeros in zeros, scales in scales => {
            O::round_products(simd, &affine(&numbers::<S, P>(simd, group), zeros, scales))
        }, out)
    }
}

#[inline(always)]
fn fields_body<S: Simd, O: Output>(
    simd: S,
    words: &[u8],
    shift: u32,
    bits: u32,
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    let words = words.as_chunks::<4>().0;
    let words = &words[..words.len().min(scales.len()).min(out.len() / O::BYTES)];
    // A shift of 32 or more leaves no bits.
    let mask = if shift < 32 { (1u32 << bits.min(8)) - 1 } else { 0 };
    if zeros.is_empty() {
        walk!(O, group in words, scales in scales => {
            O::round_products(simd, &affine(&simd.fields(group, shift % 32, mask), NO_ZEROS, scales))
        }, out)
    } else {
        let words = &words[..words.len().min(zeros.len())];
        walk!(O, group in words, zeros in zeros, scales in scales => {
            O::round_products(simd, &affine(&simd.fields(group, shift % 32, mask), zeros, scales))
        }, out)
    }
}

#[inline(always)]
fn indexed_body<S: Simd, P: Packing, O: Output>(
    simd: S,
    packed: &[u8],
    groups: &[u32],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    if scales.is_empty() {
        return 0;
    }
    let has_nans = count_nans(simd, zeros) + count_nans(simd, scales) > 0;
    let elements = P::codes_in(packed.len()).min(groups.len()).min(out.len() / O::BYTES);
    walk_packed!(P, O, elements, group in packed, groups in groups => {
        let codes = numbers::<S, P>(simd, group);
        let (zeros, scales) = (simd.gather(zeros, groups), simd.gather(scales, groups));
        let values = affine(&codes, &zeros, &scales);
        O::round_products(simd, &if has_nans { canonical(values) } else { values })
    }, out)
}

#[inline(always)]
fn unpack_body<S: Simd, P: Packing>(simd: S, packed: &[u8], out: &mut [f32]) -> usize {
    let elements = P::codes_in(packed.len()).min(out.len());
    let (groups, tail) = out[..elements].as_chunks_mut::<GROUP>();
    let (whole, rest) = packed.split_at(groups.len() * 4 * P::BITS);
    for (packed, out) in whole.chunks_exact(4 * P::BITS).zip(groups) {
        *out = numbers::<S, P>(simd, &load::<P>(packed));
    }
    for (out, code) in tail.iter_mut().zip(numbers::<S, P>(simd, &load::<P>(rest))) {
        *out = code;
    }
    elements
}
