//! IQ2_XS: 256 elements as 32 points of a grid of 512, with a scale of four bits for every two points; a value is
//! `(scale × (0.5 + group scale) × 0.25) × element of the point`, with a sign.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 64 | 16-bit words; bits 0–8: point; bits 9–15: seven signs, the eighth making the number of negative ones even |
//! | 66 | 8 | group scales, low nibble first |
//!
//! Follows `dequantize_row_iq2_xs` of ggml.

use super::GgmlBlock;
use super::fields::{Nibbles, bytes, fields, half, pair, scaled};
use super::grid::{group as points_of, points, signed_values};
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
        // The factors are powers of two, so the order of the multiplications does not change the result.
        scaled(simd, scale * 0.125, codes.map(|code| 2 * code + 1))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        // The fields of the four words are extracted in one integer: the compiler would use a vector register.
        let words = u64::from_le_bytes(bytes(block, 2 + 8 * group));
        let seven = words >> 9 & 0x007F_007F_007F_007F;
        let parity = seven ^ seven >> 4;
        let parity = parity ^ parity >> 2;
        let parity = (parity ^ parity >> 1) & 0x0001_0001_0001_0001;
        let signs = seven | parity << 7;
        let signs = (signs | signs >> 8) & 0x0000_FFFF_0000_FFFF;
        let signs = (signs | signs >> 16) as u32;
        let indices = [words, words >> 16, words >> 32, words >> 48];
        let indices = [indices[0] as usize, indices[1] as usize, indices[2] as usize, indices[3] as usize];
        signed_values(points_of(&GRID, indices), pair(scales, group), signs, scales[0])
    }
}
