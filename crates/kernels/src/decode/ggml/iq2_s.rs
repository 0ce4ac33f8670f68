//! IQ2_S: 256 elements as 32 points of a grid of 1024, with a scale of four bits for every two points; a value is
//! `(scale × (0.5 + group scale) × 0.25) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 32 | the lower eight bits of the points |
//! | 34 | 32 | signs, one bit per element |
//! | 66 | 8 | the upper two bits of the points, lowest first |
//! | 74 | 8 | group scales, low nibble first |
//!
//! Follows `dequantize_row_iq2_s` of ggml.

use super::GgmlBlock;
use super::fields::{Nibbles, bytes, double_word, fields, half, pair, scaled};
use super::grid::{group as points_of, points, signed_values};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ2_S.
#[derive(Clone, Copy, Debug)]
pub struct Iq2S;

static GRID: [[f32; 8]; 1024] = points(&tables::IQ2_S, &tables::IQ2_LEVELS);

impl GgmlBlock for Iq2S {
    const NAME: &'static str = "IQ2_S";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 82;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let scale = half(simd, block, 0);
        let codes = fields::<S, Nibbles<64, 4>, 16>(simd, block, 66);
        // The factors are powers of two, so the order of the multiplications does not change the result.
        scaled(simd, scale * 0.125, codes.map(|code| 2 * code + 1))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let lower: [u8; 4] = bytes(block, 2 + 4 * group);
        let upper = usize::from(block[66 + group]);
        let mut indices = lower.map(usize::from);
        for (i, index) in indices.iter_mut().enumerate() {
            *index |= (upper >> (2 * i) & 3) << 8;
        }
        signed_values(points_of(&GRID, indices), pair(scales, group), double_word(block, 34 + 4 * group), scales[0])
    }
}
