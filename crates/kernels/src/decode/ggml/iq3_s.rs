//! IQ3_S: 256 elements in eight groups of 32, eight points of a grid of 512 each, with a scale of four bits per group; a
//! value is `(scale × (1 + 2 × group scale)) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | the lower eight bits of the points, four elements each |
//! | 66 | 8 | the ninth bits of the points, a byte per group |
//! | 74 | 32 | signs, one bit per element |
//! | 106 | 4 | group scales, low nibble first |
//!
//! Follows `dequantize_row_iq3_s` of ggml.

use super::GgmlBlock;
use super::fields::{Nibbles, double_word, fields, half, indices, scaled};
use super::grid::{group as points_of, points, signed_values};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ3_S.
#[derive(Clone, Copy, Debug)]
pub struct Iq3S;

static GRID: [[f32; 4]; 512] = points(&tables::IQ3_S, &[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);

impl GgmlBlock for Iq3S {
    const NAME: &'static str = "IQ3_S";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 110;
    type Scales = [f32; 8];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 8] {
        let scale = half(simd, block, 0);
        let codes = fields::<S, Nibbles<96, 4>, 8>(simd, block, 94);
        scaled(simd, scale, codes.map(|code| 1 + 2 * code))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 8], group: usize) -> [f32; GROUP] {
        let mut indices = indices::<8>(block, 2 + 8 * group);
        let ninth = usize::from(block[66 + group]);
        for (i, index) in indices.iter_mut().enumerate() {
            *index |= (ninth >> i & 1) << 8;
        }
        signed_values(points_of(&GRID, indices), [scales[group]; 2], double_word(block, 74 + 4 * group), scales[0])
    }
}
