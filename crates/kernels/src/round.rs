//! `f32` slices rounded to an output type or to an eight-bit format.

use crate::GROUP;
use crate::float::Format8;
use crate::group::{pad, write_some};
use crate::output::Output;
use crate::simd::Simd;

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
fn round_body<S: Simd, O: Output>(simd: S, values: &[f32], out: &mut [u8]) {
    let elements = values.len().min(out.len() / O::BYTES);
    let (groups, rest) = values[..elements].as_chunks::<GROUP>();
    let (whole, tail) = out.split_at_mut(groups.len() * GROUP * O::BYTES);
    for (group, bytes) in groups.iter().zip(whole.chunks_exact_mut(GROUP * O::BYTES)) {
        O::write(&O::round_group(simd, group), bytes);
    }
    if !rest.is_empty() {
        write_some::<O>(&O::round_group(simd, &pad(rest)), rest.len(), tail);
    }
}

#[inline(always)]
fn narrow_body<S: Simd, F: Format8>(_simd: S, values: &[f32], out: &mut [u8]) {
    let elements = values.len().min(out.len());
    let (groups, rest) = values[..elements].as_chunks::<GROUP>();
    let (codes, tail) = out[..elements].as_chunks_mut::<GROUP>();
    for (group, codes) in groups.iter().zip(codes) {
        *codes = group.map(F::encode);
    }
    for (code, value) in tail.iter_mut().zip(pad(rest).map(F::encode)) {
        *code = value;
    }
}
