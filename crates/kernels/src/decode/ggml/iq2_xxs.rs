//! IQ2_XXS: 256 elements in eight groups of 32, four points of a grid of 256 each, with a scale of four bits per group; a
//! value is `(scale × (0.5 + group scale) × 0.25) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | groups of 8 bytes |
//!
//! | offset in a group | bytes | |
//! |---|---|---|
//! | 0 | 4 | points |
//! | 4 | 4 | bits 0–27: seven signs per point, the eighth making the number of negative ones even; bits 28–31: group scale |
//!
//! Follows `dequantize_row_iq2_xxs` of ggml.

use super::GgmlBlock;
use super::fields::{double_word, half, indices};
use super::grid::{four_even_signs, group as points_of, points, signed_values};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ2_XXS.
#[derive(Clone, Copy, Debug)]
pub struct Iq2Xxs;

static GRID: [[f32; 8]; 256] = points(&tables::IQ2_XXS, &tables::IQ2_LEVELS);

impl GgmlBlock for Iq2Xxs {
    const NAME: &'static str = "IQ2_XXS";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 66;
    /// The scale, times the factors of the formula.
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        // The factors are powers of two, so the order of the multiplications does not change the result.
        half(simd, block, 0) * 0.125
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        let rest = double_word(block, 6 + 8 * group);
        let of_group = scale * (2 * (rest >> 28) + 1) as f32;
        let points = points_of(&GRID, indices::<4>(block, 2 + 8 * group));
        signed_values(points, [of_group; 2], four_even_signs(rest), *scale)
    }
}
