//! Q4_0: 32 four-bit integers with one scale; a value is `(code − 8) × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 16 | codes: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_q4_0` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half, split_nibbles};
use super::map::scaled_words;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{SMALL_TABLE, Simd};

/// The type Q4_0.
#[derive(Clone, Copy, Debug)]
pub struct Q4_0;

/// The values of the codes.
const MAP: [f32; SMALL_TABLE] =
    [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

impl GgmlBlock for Q4_0 {
    const NAME: &'static str = "Q4_0";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 18;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        let codes = split_nibbles(simd, bytes(block, 2));
        let integers = map!(code in codes => code.wrapping_sub(8));
        map!(integer in simd.signed(&integers) => integer * scale)
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, group: usize) -> [O::Word; GROUP] {
        if S::SHUFFLES && O::TABLES {
            scaled_words::<S, O>(simd, &MAP, *scale, bytes(block, 2))
        } else {
            O::round_products(simd, &Self::values(simd, block, scale, group))
        }
    }
}
