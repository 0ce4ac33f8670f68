//! Q8_0: 32 eight-bit integers with one scale; a value is `integer × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 32 | integers, signed |
//!
//! Follows `dequantize_row_q8_0` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q8_0.
#[derive(Clone, Copy, Debug)]
pub struct Q8_0;

impl GgmlBlock for Q8_0 {
    const NAME: &'static str = "Q8_0";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 34;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        map!(integer in simd.signed(&bytes(block, 2)) => integer * scale)
    }
}
