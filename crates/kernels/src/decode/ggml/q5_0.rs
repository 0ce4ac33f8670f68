//! Q5_0: 32 five-bit integers with one scale; a value is `(code − 16) × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 4 | the fifth bits, element 0 lowest |
//! | 6 | 16 | the lower four bits: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_q5_0` of ggml.

use super::GgmlBlock;
use super::fields::{Pairs, bytes, fields, half, split_nibbles};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q5_0.
#[derive(Clone, Copy, Debug)]
pub struct Q5_0;

impl GgmlBlock for Q5_0 {
    const NAME: &'static str = "Q5_0";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 22;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        let lower = split_nibbles(simd, bytes(block, 6));
        let fifth = fields::<S, Pairs<16, 1>, GROUP>(simd, block, 0);
        let mut integers = [0u8; GROUP];
        for i in 0..GROUP {
            integers[i] = (lower[i] | (fifth[i] & 1) << 4).wrapping_sub(16);
        }
        map!(integer in simd.signed(&integers) => integer * scale)
    }
}
