//! Q1_0: 128 signs with one scale; a value is `scale` if the bit is set, else `−scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 16 | bits, element 0 lowest |
//!
//! Follows `dequantize_row_q1_0` of ggml.

use super::GgmlBlock;
use super::fields::{choose, double_word, half};
use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::simd::Simd;

/// The type Q1_0.
#[derive(Clone, Copy, Debug)]
pub struct Q1_0;

impl GgmlBlock for Q1_0 {
    const NAME: &'static str = "Q1_0";
    const BLOCK_ELEMENTS: usize = 128;
    const BLOCK_BYTES: usize = 18;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        choose(double_word(block, 2 + 4 * group), *scale, canonical_nan(-scale))
    }
}
