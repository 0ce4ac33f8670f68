//! `f32` slices rounded to an output type or to an eight-bit format.

use crate::base::GROUP;
use crate::base::float::Format8;
use crate::base::group::pad;
use crate::base::output::Output;
use crate::base::simd::Simd;

kernel! {
    /// Rounds `values` into `out`, `O::BYTES` bytes each.
    ///
    /// ```
    /// use anamnesis_kernels::{F16, Level, round_slice};
    ///
    /// let mut out = [0; 4];
    /// round_slice::<F16>(Level::detect(), &[1.0, -2.0], &mut out);
    /// assert_eq!(out, [0x00, 0x3C, 0x00, 0xC0]);
    /// ```
    pub fn round_slice<O: Output>(values: &[f32], out: &mut [u8]) = round_body
}

kernel! {
    /// Encodes `values` into `out`, one code each.
    ///
    /// ```
    /// use anamnesis_kernels::{E4m3, Level, narrow};
    ///
    /// let mut codes = [0; 2];
    /// narrow::<E4m3>(Level::detect(), &[1.0, 1e9], &mut codes);
    /// assert_eq!(codes, [0x38, 0x7E]);
    /// ```
    pub fn narrow<F: Format8>(values: &[f32], out: &mut [u8]) = narrow_body
}

#[inline(always)]
fn round_body<S: Simd, O: Output>(simd: S, values: &[f32], out: &mut [u8]) -> usize {
    walk!(O, group in values => O::round_group(simd, group), out)
}

#[inline(always)]
fn narrow_body<S: Simd, F: Format8>(_simd: S, values: &[f32], out: &mut [u8]) -> usize {
    let elements = values.len().min(out.len());
    let (groups, rest) = values[..elements].as_chunks::<GROUP>();
    let (codes, tail) = out[..elements].as_chunks_mut::<GROUP>();
    for (group, codes) in groups.iter().zip(codes) {
        *codes = map!(value in group => F::encode(value));
    }
    for (code, value) in tail.iter_mut().zip(map!(value in &pad(rest) => F::encode(value))) {
        *code = value;
    }
    elements
}
