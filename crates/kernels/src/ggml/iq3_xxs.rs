//! IQ3_XXS: 256 elements in eight groups of 32, eight points of a grid of 256 each, with a scale of four bits per group; a
//! value is `(scale × (0.5 + group scale) × 0.5) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | points of four elements each |
//! | 66 | 32 | a 32-bit word per group; 0–27: four times seven signs, the eighth making the number of negative ones even; 28–31: group scale |

use super::BlockType;
use super::fields::{bytes, double_word, half, numbers};
use super::grid::{four_even_signs, group as points_of, points, signed_values};
use super::tables;
use crate::GROUP;
use crate::simd::Simd;

/// The type IQ3_XXS.
#[derive(Clone, Copy, Debug)]
pub struct Iq3Xxs;

static GRID: [[u8; 4]; 256] = points(&tables::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);

impl BlockType for Iq3Xxs {
    const NAME: &'static str = "IQ3_XXS";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 98;
    type Scales = [f32; 8];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 8] {
        let scale = half(simd, block, 0);
        let mut codes = [0; 8];
        for (group, code) in codes.iter_mut().enumerate() {
            *code = block[69 + 4 * group] >> 4;
        }
        numbers(simd, codes).map(|code| scale * (0.5 + code) * 0.5)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 8], group: usize) -> [f32; GROUP] {
        let indices: [u8; 8] = bytes(block, 2 + 8 * group);
        let rest = double_word(block, 66 + 4 * group);
        let points = points_of(&GRID, indices.map(usize::from));
        signed_values(simd, &points, [scales[group]; 2], four_even_signs(rest))
    }
}
