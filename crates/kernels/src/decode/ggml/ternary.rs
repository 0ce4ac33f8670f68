//! Two-bit codes with the values −1, 0, 1 and 2.
//!
//! A block has four different values: they are computed and rounded once per block and looked up by code.

use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{ProductsTwice, SMALL_TABLE, Simd};

/// The values of the codes, repeated.
const MAP: [f32; SMALL_TABLE] = [-1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0];

/// The words of all codes times a scale.
#[inline(always)]
pub(super) fn few_table<S: Simd, O: Output>(simd: S, scale: f32) -> [O::Word; GROUP] {
    O::round_sixteen::<S, ProductsTwice>(simd, &in_memory(&MAP).map(|entry| entry * scale))
}

/// The words of `(code % 4 - 1) * scale`.
#[inline(always)]
pub(super) fn few_words<S: Simd, O: Output>(simd: S, scale: f32, codes: &[u16; GROUP]) -> [O::Word; GROUP] {
    if !S::SHUFFLES {
        return O::round_products(simd, &map!(code in codes => (f32::from(code % 4) - 1.0) * scale));
    }
    O::look_up_few(simd, &few_table::<S, O>(simd, scale), codes)
}
