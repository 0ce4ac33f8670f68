//! Q2_0: 64 two-bit integers with one scale; a value is `(code − 1) × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 16 | codes, element 0 lowest |
//!
//! Follows `dequantize_row_q2_0` of ggml.

use super::GgmlBlock;
use super::fields::half;
use super::ternary::few_table;
use crate::base::GROUP;
use crate::base::output::{F32, Output};
use crate::base::packing::Bits2;
use crate::base::simd::Simd;

/// The type Q2_0.
#[derive(Clone, Copy, Debug)]
pub struct Q2_0;

impl GgmlBlock for Q2_0 {
    const NAME: &'static str = "Q2_0";
    const BLOCK_ELEMENTS: usize = 64;
    const BLOCK_BYTES: usize = 18;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        map!(word in Self::words::<S, F32>(simd, block, scale, group) => f32::from_bits(word))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, group: usize) -> [O::Word; GROUP] {
        let table = few_table::<S, O>(simd, *scale);
        let mut packed = [0; GROUP];
        packed[..8].copy_from_slice(&block[2 + 8 * group..10 + 8 * group]);
        O::look_up_packed::<S, Bits2>(simd, &table, &packed)
    }
}
