//! Q5_1: 32 five-bit integers with a scale and a minimum; a value is `code × scale + minimum`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 2 | minimum, F16 |
//! | 4 | 4 | the fifth bits, element 0 lowest |
//! | 8 | 16 | the lower four bits: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_q5_1` of ggml.

use super::GgmlBlock;
use super::fields::{Pairs, bytes, fields, half, split_nibbles};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q5_1.
#[derive(Clone, Copy, Debug)]
pub struct Q5_1;

impl GgmlBlock for Q5_1 {
    const NAME: &'static str = "Q5_1";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 24;
    /// The scale, then the minimum.
    type Scales = [f32; 2];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 2] {
        [half(simd, block, 0), half(simd, block, 2)]
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], &[scale, minimum]: &[f32; 2], _group: usize) -> [f32; GROUP] {
        let lower = split_nibbles(simd, bytes(block, 8));
        let fifth = fields::<S, Pairs<32, 1>, GROUP>(simd, block, 0);
        let mut codes = [0; GROUP];
        for i in 0..GROUP {
            codes[i] = lower[i] | (fifth[i] & 1) << 4;
        }
        map!(code in simd.unsigned(&codes) => code * scale + minimum)
    }
}
