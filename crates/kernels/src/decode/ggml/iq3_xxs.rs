//! IQ3_XXS: 256 elements in eight groups of 32, eight points of a grid of 256 each, with a scale of four bits per group; a
//! value is `(scale × (0.5 + group scale) × 0.5) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | points of four elements each |
//! | 66 | 32 | a 32-bit word per group; bits 0–27: four fields of seven signs, the eighth making the number of negative ones even; bits 28–31: group scale |
//!
//! Follows `dequantize_row_iq3_xxs` of ggml.

use super::GgmlBlock;
use super::fields::{double_word, half, indices};
use super::grid::{four_even_signs, group as points_of, points, signed_values};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ3_XXS.
#[derive(Clone, Copy, Debug)]
pub struct Iq3Xxs;

static GRID: [[f32; 4]; 256] = points(&tables::IQ3_XXS, &[4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0]);

impl GgmlBlock for Iq3Xxs {
    const NAME: &'static str = "IQ3_XXS";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 98;
    /// The scale, times the factors of the formula.
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        // The factors are powers of two, so the order of the multiplications does not change the result.
        half(simd, block, 0) * 0.25
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        let indices = indices::<8>(block, 2 + 8 * group);
        let rest = double_word(block, 66 + 4 * group);
        let of_group = scale * (2 * (rest >> 28) + 1) as f32;
        let points = points_of(&GRID, indices);
        signed_values(points, [of_group; 2], four_even_signs(rest), *scale)
    }
}
