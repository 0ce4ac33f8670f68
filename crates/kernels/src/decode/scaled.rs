//! Eight-bit floats with one scale: per-tensor scales, one row of per-row scales, and the cast without a scale.
//!
//! Each element is the code's exact value times the scale, rounded once to `f32`, then rounded to the output. Signed
//! formats have 128 magnitudes, so for 16-bit outputs a long enough slice is decoded from a table of 128 rounded
//! words on CPU levels where such look-ups are faster than arithmetic. With a scale that is zero or not finite, products
//! may be NaN whose sign is not that of the code; then the table is not used.

use crate::base::GROUP;
use crate::base::float::{Format8, canonical_nan};
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::simd::{Simd, TABLE};

/// Shorter slices are decoded without a table.
const MIN_TABLE_ELEMENTS: usize = 8 * TABLE;

kernel! {
    /// Decodes `codes`, multiplies by `scale` and rounds into `out`, `O::BYTES` bytes per code.
    ///
    /// ```
    /// use anamnesis_kernels::{Bf16, E4m3, Level, scaled};
    ///
    /// let mut out = [0; 4];
    /// scaled::<E4m3, Bf16>(Level::detect(), &[0x38, 0xB8], 0.5, &mut out); // 1.0 and -1.0
    /// assert_eq!(out, [0x00, 0x3F, 0x00, 0xBF]); // 0.5 and -0.5
    /// ```
    pub fn scaled<F: Format8>(codes: &[u8], scale: f32) -> O in out = body
}

/// Decodes `codes` and rounds into `out`, without a scale.
#[must_use = "output past the returned count keeps its old contents"]
pub fn cast<F: Format8, O: Output>(level: Level, codes: &[u8], out: &mut [u8]) -> usize {
    scaled::<F, O>(level, codes, 1.0, out)
}

/// The words of a group of codes times a scale. Codes and scale must not both be NaN, and a NaN must be quiet.
#[inline(always)]
pub(crate) fn group_words<S: Simd, F: Format8, O: Output>(
    simd: S,
    codes: &[u8; GROUP],
    scale: f32,
) -> [O::Word; GROUP] {
    O::round_products(simd, &map!(value in F::decode_group(simd, codes) => value * scale))
}

/// The words of all 128 magnitudes times a scale that [keeps their signs](keeps_signs).
#[inline(always)]
pub(crate) fn magnitude_words<S: Simd, F: Format8, O: Output>(simd: S, scale: f32) -> [O::Word; TABLE] {
    let mut words = [O::Word::default(); TABLE];
    for (quarter, index) in words.as_chunks_mut::<GROUP>().0.iter_mut().zip(0u8..) {
        let codes = std::array::from_fn(|i| index * GROUP as u8 + i as u8);
        *quarter = group_words::<S, F, O>(simd, &codes, scale);
    }
    words
}

/// Whether products have the signs of their codes: ∞ × 0 and ∞ × NaN do not.
#[inline(always)]
pub(crate) fn keeps_signs(scale: f32) -> bool {
    scale.is_finite() && scale != 0.0
}

/// Whether this level, format and output support tables of magnitudes.
#[inline(always)]
pub(crate) fn has_tables<S: Simd, F: Format8, O: Output>() -> bool {
    S::TABLES && F::SIGNED && O::TABLES
}

#[inline(always)]
fn body<S: Simd, F: Format8, O: Output>(simd: S, codes: &[u8], scale: f32, out: &mut [u8]) -> usize {
    if has_tables::<S, F, O>() && codes.len() >= MIN_TABLE_ELEMENTS && keeps_signs(scale) {
        let table = magnitude_words::<S, F, O>(simd, scale);
        walk!(O, group in codes => O::look_up(simd, &table, group), out)
    } else if scale.is_nan() {
        // The result does not depend on the code, not even on a NaN code.
        fill::<O>(&O::round_products(simd, &[canonical_nan(scale); GROUP]), codes.len(), out)
    } else {
        walk!(O, group in codes => group_words::<S, F, O>(simd, group, scale), out)
    }
}

/// Repeats a group of words for `elements` elements, and returns the bytes written.
#[inline(always)]
fn fill<O: Output>(words: &[O::Word; GROUP], elements: usize, out: &mut [u8]) -> usize {
    let mut group = [0; 4 * GROUP];
    let group = &mut group[..GROUP * O::BYTES];
    O::write(words, group);
    let written = elements.min(out.len() / O::BYTES) * O::BYTES;
    let mut chunks = out[..written].chunks_exact_mut(GROUP * O::BYTES);
    for chunk in &mut chunks {
        chunk.copy_from_slice(group);
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&group[..rest.len()]);
    written
}
