//! Q8_1: 32 eight-bit integers with one scale; a value is `integer × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 2 | scale times the sum of the integers, F16; redundant |
//! | 4 | 32 | integers, signed |
//!
//! ggml uses these blocks as the right-hand side of dot products and has no `dequantize_row_q8_1`.

use super::GgmlBlock;
use super::fields::{bytes, half};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q8_1.
#[derive(Clone, Copy, Debug)]
pub struct Q8_1;

impl GgmlBlock for Q8_1 {
    const NAME: &'static str = "Q8_1";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 36;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        map!(integer in simd.signed(&bytes(block, 4)) => integer * scale)
    }
}
