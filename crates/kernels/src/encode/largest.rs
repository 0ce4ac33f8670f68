//! The largest magnitude of each block.

use super::Input;
use crate::GROUP;
use crate::group::pad;
use crate::simd::Simd;

/// The bits of infinity; larger ones, without their sign, are NaN.
const INFINITY: i32 = 0x7F80_0000;

kernel! {
    /// Finds the largest magnitude of each block of `values`.
    ///
    /// NaN is larger than every number, so that a block's largest tells whether all of it is finite. The last block may
    /// be short; a `block` of zero counts as one.
    ///
    /// ```
    /// use anamnesis_kernels::{F32, Level, block_largest};
    ///
    /// let mut largest = [0.0; 2];
    /// block_largest::<F32>(Level::detect(), &[1.0, -3.0, 0.5], 2, &mut largest);
    /// assert_eq!(largest, [3.0, 0.5]);
    /// ```
    pub fn block_largest<I: Input>(values: &[I::Element], block: usize, out: &mut [f32]) = with_nan
}

kernel! {
    /// [`block_largest`] of the numbers alone: NaN counts for nothing.
    ///
    /// ```
    /// use anamnesis_kernels::{F32, Level, block_largest_number};
    ///
    /// let mut largest = [0.0; 2];
    /// block_largest_number::<F32>(Level::detect(), &[1.0, -3.0, f32::NAN], 2, &mut largest);
    /// assert_eq!(largest, [3.0, 0.0]);
    /// ```
    pub fn block_largest_number<I: Input>(values: &[I::Element], block: usize, out: &mut [f32]) = without_nan
}

#[inline(always)]
fn with_nan<S: Simd, I: Input>(simd: S, values: &[I::Element], block: usize, out: &mut [f32]) {
    body::<S, I, { i32::MAX }>(simd, values, block, out);
}

#[inline(always)]
fn without_nan<S: Simd, I: Input>(simd: S, values: &[I::Element], block: usize, out: &mut [f32]) {
    body::<S, I, INFINITY>(simd, values, block, out);
}

/// Magnitudes are compared by their bits, of which those above `TOP` count for nothing.
#[inline(always)]
fn body<S: Simd, I: Input, const TOP: i32>(simd: S, values: &[I::Element], block: usize, out: &mut [f32]) {
    for (block, out) in values.chunks(block.max(1)).zip(out) {
        let mut largest = [0; GROUP];
        let (groups, rest) = block.as_chunks::<GROUP>();
        for group in groups {
            larger::<TOP>(&mut largest, &I::widen(simd, group));
        }
        if !rest.is_empty() {
            larger::<TOP>(&mut largest, &I::widen(simd, &pad(rest)));
        }
        let mut width = GROUP / 2;
        while width > 0 {
            for i in 0..width {
                largest[i] = largest[i].max(largest[i + width]);
            }
            width /= 2;
        }
        *out = f32::from_bits(largest[0] as u32);
    }
}

#[inline(always)]
fn larger<const TOP: i32>(largest: &mut [i32; GROUP], values: &[f32; GROUP]) {
    for i in 0..GROUP {
        let bits = (values[i].to_bits() & 0x7FFF_FFFF) as i32;
        let bits = if bits > TOP { 0 } else { bits };
        largest[i] = largest[i].max(bits);
    }
}
