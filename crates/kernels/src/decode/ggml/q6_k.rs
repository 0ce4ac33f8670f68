//! Q6_K: 256 six-bit integers in sixteen groups of 16, each with a scale of eight bits; a value is
//! `(scale × group scale) × (code − 32)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 128 | the lower four bits, 64 bytes for each 128 elements: the low nibbles are the first 64, the high nibbles the rest |
//! | 128 | 64 | the upper two bits, 32 bytes for each 128 elements, lowest first: elements `i`, `i + 32`, `i + 64`, `i + 96` |
//! | 192 | 16 | group scales, I8 |
//! | 208 | 2 | scale, F16 |
//!
//! Follows `dequantize_row_q6_K` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half, in_halves, pair, scaled};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q6_K.
#[derive(Clone, Copy, Debug)]
pub struct Q6K;

impl GgmlBlock for Q6K {
    const NAME: &'static str = "Q6_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 210;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let scale = half(simd, block, 208);
        scaled(simd, scale, bytes(block, 192))
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let (half, quarter) = (group / 4, group % 4);
        let lower: [u8; GROUP] = bytes(block, half * 64 + quarter % 2 * GROUP);
        let upper: [u8; GROUP] = bytes(block, 128 + half * GROUP);
        let mut integers = [0; GROUP];
        for i in 0..GROUP {
            let code = lower[i] >> (quarter / 2 * 4) & 0x0F | (upper[i] >> (quarter * 2) & 3) << 4;
            integers[i] = code.wrapping_sub(32);
        }
        in_halves(simd.signed(&integers), pair(scales, group))
    }
}
