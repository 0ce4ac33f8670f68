//! IQ2_XS: 256 elements as 32 points of a grid of 512, with a scale of four bits for every two points; a value is
//! `(scale × (0.5 + group scale) × 0.25) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | words of 16 bits; 0–8: point; 9–15: seven signs, the eighth making the number of negative ones even |
//! | 66 | 8 | group scales, the low half of a byte first |

use super::GgmlBlock;
use super::fields::{Nibbles, fields, half, pair, scaled, word};
use super::grid::{even_signs, group as points_of, points, signed_values};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ2_XS.
#[derive(Clone, Copy, Debug)]
pub struct Iq2Xs;

static GRID: [[f32; 8]; 512] = points(&tables::IQ2_XS, &tables::IQ2_LEVELS);

impl GgmlBlock for Iq2Xs {
    const NAME: &'static str = "IQ2_XS";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 74;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let scale = half(simd, block, 0);
        let codes = fields::<S, Nibbles<64, 4>, 16>(simd, block, 58);
        // With powers of two as factors, no order of these operations rounds differently.
        scaled(simd, scale * 0.125, codes.map(|code| 2 * code + 1))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let (mut indices, mut signs) = ([0; 4], 0);
        for (i, index) in indices.iter_mut().enumerate() {
            let word = u32::from(word(block, 2 + 8 * group + 2 * i));
            *index = word as usize;
            signs |= even_signs(word >> 9) << (8 * i);
        }
        signed_values(points_of(&GRID, indices), pair(scales, group), signs)
    }
}
