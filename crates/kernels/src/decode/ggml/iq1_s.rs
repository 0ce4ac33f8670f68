//! IQ1_S: 256 elements in eight groups of 32, four points of a grid of 2048 each, with a scale of three bits and an
//! offset per group; a value is `(scale × (2 × group scale + 1)) × (element of the point ± 0.125)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 32 | the lower eight bits of the points |
//! | 34 | 16 | a 16-bit word per group; bits 0–11: the upper three bits of the points; bits 12–14: group scale; bit 15: the offset is negative |
//!
//! Follows `dequantize_row_iq1_s` of ggml.

use super::GgmlBlock;
use super::fields::{Nibbles, bytes, fields, half, scaled, word};
use super::grid::{group as points_of, points};
use super::tables;
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type IQ1_S.
#[derive(Clone, Copy, Debug)]
pub struct Iq1S;

/// The grid, with levels −1, 0 and 1; also of [`Iq1M`](super::Iq1M).
pub(super) static GRID: [[f32; 8]; 2048] = points(&tables::IQ1, &[-1.0, 0.0, 1.0]);

impl GgmlBlock for Iq1S {
    const NAME: &'static str = "IQ1_S";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 50;
    type Scales = [f32; 8];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 8] {
        let scale = half(simd, block, 0);
        let codes = fields::<S, Nibbles<12, 16>, 8>(simd, block, 34);
        scaled(simd, scale, codes.map(|code| 2 * (code & 7) + 1))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 8], group: usize) -> [f32; GROUP] {
        let lower: [u8; 4] = bytes(block, 2 + 4 * group);
        let rest = word(block, 34 + 2 * group);
        let mut indices = lower.map(usize::from);
        for (i, index) in indices.iter_mut().enumerate() {
            *index |= (usize::from(rest) >> (3 * i) & 7) << 8;
        }
        let offset = if rest & 0x8000 != 0 { -0.125 } else { 0.125 };
        let scale = scales[group];
        map!(element in points_of(&GRID, indices) => scale * (element + offset))
    }
}
