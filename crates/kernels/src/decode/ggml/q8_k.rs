//! Q8_K: 256 eight-bit integers with one scale; a value is `integer × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | scale, F32 |
//! | 4 | 256 | integers, signed |
//! | 260 | 32 | sums of 16 integers each, I16; redundant |
//!
//! Follows `dequantize_row_q8_K` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, double_word};
use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::simd::Simd;

/// The type Q8_K.
#[derive(Clone, Copy, Debug)]
pub struct Q8K;

impl GgmlBlock for Q8K {
    const NAME: &'static str = "Q8_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 292;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(_simd: S, block: &[u8]) -> f32 {
        canonical_nan(f32::from_bits(double_word(block, 0)))
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        map!(integer in simd.signed(&bytes(block, 4 + group * GROUP)) => integer * scale)
    }
}
