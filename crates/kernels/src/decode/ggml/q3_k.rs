//! Q3_K: 256 three-bit integers in sixteen groups of 16, each with a scale of six bits; a value is
//! `(scale × (group scale − 32)) × (code − 4)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | the third bits: bit `b` of byte `i` is that of element `32 b + i` |
//! | 32 | 64 | the lower two bits, 32 bytes for each 128 elements, lowest first: elements `i`, `i + 32`, `i + 64`, `i + 96` |
//! | 96 | 8 | the lower four bits of the group scales: the low nibbles are 0–7, the high nibbles 8–15 |
//! | 104 | 4 | the upper two bits of the group scales, lowest first: scales `i`, `i + 4`, `i + 8`, `i + 12` |
//! | 108 | 2 | scale, F16 |
//!
//! Follows `dequantize_row_q3_K` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, fields, half, in_halves, pair, scaled};
use super::k_scales::twice;
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::Simd;

/// The type Q3_K.
#[derive(Clone, Copy, Debug)]
pub struct Q3K;

/// The lower four bits of the group scales, in the last sixteen bytes of a block.
#[derive(Clone, Copy, Debug)]
struct Lower;

impl Packing for Lower {
    const NAME: &'static str = "lower bits of scales";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = twice([16, 24, 32, 40, 48, 56, 64, 72, 20, 28, 36, 44, 52, 60, 68, 76]);
}

/// The upper two bits of the group scales, in the last sixteen bytes of a block.
#[derive(Clone, Copy, Debug)]
struct Upper;

impl Packing for Upper {
    const NAME: &'static str = "upper bits of scales";
    const BITS: usize = 2;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = twice([80, 88, 96, 104, 82, 90, 98, 106, 84, 92, 100, 108, 86, 94, 102, 110]);
}

impl GgmlBlock for Q3K {
    const NAME: &'static str = "Q3_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 110;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let scale = half(simd, block, 108);
        let lower = fields::<S, Lower, 16>(simd, block, 94);
        let upper = fields::<S, Upper, 16>(simd, block, 94);
        let mut codes = [0u8; 16];
        for i in 0..16 {
            codes[i] = (lower[i] | upper[i] << 4).wrapping_sub(32);
        }
        scaled(simd, scale, codes)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let third: [u8; GROUP] = bytes(block, 0);
        let lower: [u8; GROUP] = bytes(block, 32 + group / 4 * GROUP);
        let mut integers = [0; GROUP];
        for i in 0..GROUP {
            let code = lower[i] >> (group % 4 * 2) & 3 | (third[i] >> group & 1) << 2;
            integers[i] = code.wrapping_sub(4);
        }
        in_halves(simd.signed(&integers), pair(scales, group))
    }
}
