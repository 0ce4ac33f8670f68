//! TQ2_0: 256 two-bit integers with one scale; a value is `(code − 1) × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 64 | codes, 32 bytes for each 128 elements, lowest first: elements `i`, `i + 32`, `i + 64`, `i + 96` |
//! | 64 | 2 | scale, F16 |
//!
//! The encoder writes −1, 0 and 1; code 3 decodes to 2.
//!
//! Follows `dequantize_row_tq2_0` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half};
use super::ternary::few_words;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::Simd;

/// The type TQ2_0.
#[derive(Clone, Copy, Debug)]
pub struct Tq2_0;

impl GgmlBlock for Tq2_0 {
    const NAME: &'static str = "TQ2_0";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 66;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 64)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        let packed: [u8; GROUP] = bytes(block, group / 4 * GROUP);
        let integers = map!(byte in packed => (byte >> (group % 4 * 2) & 3).wrapping_sub(1));
        map!(integer in simd.signed(&integers) => integer * scale)
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, group: usize) -> [O::Word; GROUP] {
        if !S::SHUFFLES || !O::TABLES {
            return O::round_products(simd, &Self::values(simd, block, scale, group));
        }
        let packed: [u8; GROUP] = bytes(block, group / 4 * GROUP);
        let codes = map!(byte in packed => u16::from(byte) >> (group % 4 * 2));
        few_words::<S, O>(simd, *scale, &codes)
    }
}
