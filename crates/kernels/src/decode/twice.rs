//! Eight-bit integers times two factors, one after the other.

use crate::base::float::canonical_nan;
use crate::base::output::Output;
use crate::base::simd::Simd;

kernel! {
    /// Decodes signed `codes`, multiplies by `first`, then by `second`, each time rounding to `f32`, and rounds into
    /// `out`.
    ///
    /// ```
    /// use anamnesis_kernels::{Bf16, Level, scaled_twice};
    ///
    /// let mut out = [0; 4];
    /// scaled_twice::<Bf16>(Level::detect(), &[0x02, 0xFE], 3.0, 0.5, &mut out); // 2 and -2
    /// assert_eq!(out, [0x40, 0x40, 0x40, 0xC0]); // 3.0 and -3.0
    /// ```
    pub fn scaled_twice(codes: &[u8], first: f32, second: f32) -> O in out = body
}

#[inline(always)]
fn body<S: Simd, O: Output>(simd: S, codes: &[u8], first: f32, second: f32, out: &mut [u8]) -> usize {
    let (first, second) = (canonical_nan(first), canonical_nan(second));
    walk!(O, group in codes => {
        O::round_products(simd, &map!(code in simd.signed(group) => code * first * second))
    }, out)
}
