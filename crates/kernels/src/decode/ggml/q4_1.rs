//! Q4_1: 32 four-bit integers with a scale and a minimum; a value is `code × scale + minimum`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 2 | minimum, F16 |
//! | 4 | 16 | codes: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_q4_1` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half, split_nibbles};
use super::map::words_of;
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{SMALL_TABLE, Simd};

/// The type Q4_1.
#[derive(Clone, Copy, Debug)]
pub struct Q4_1;

/// The codes as `f32`.
const CODES: [f32; SMALL_TABLE] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

impl GgmlBlock for Q4_1 {
    const NAME: &'static str = "Q4_1";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 20;
    /// The scale, then the minimum.
    type Scales = [f32; 2];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 2] {
        [half(simd, block, 0), half(simd, block, 2)]
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], &[scale, minimum]: &[f32; 2], _group: usize) -> [f32; GROUP] {
        let codes = split_nibbles(simd, bytes(block, 4));
        map!(code in simd.unsigned(&codes) => code * scale + minimum)
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scales: &[f32; 2], group: usize) -> [O::Word; GROUP] {
        if S::SHUFFLES && O::TABLES {
            let &[scale, minimum] = scales;
            let values = in_memory(&CODES).map(|code| code * scale + minimum);
            words_of::<S, O>(simd, &values, bytes(block, 4))
        } else {
            O::round_products(simd, &Self::values(simd, block, scales, group))
        }
    }
}
