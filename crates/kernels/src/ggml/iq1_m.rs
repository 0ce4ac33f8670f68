//! IQ1_M: 256 elements as 32 points of a grid of 2048, with an offset per point and a scale of three bits for every two
//! points; a value is `(scale × (2 × group scale + 1)) × (element of the point ± 0.125)`, with the grid of
//! [`Iq1S`](super::Iq1S).
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | the lower eight bits of the points |
//! | 32 | 16 | half a byte per point, the low one first; 0–2: the upper three bits of the point; 3: the offset is down |
//! | 48 | 8 | four 16-bit words; 0–11: group scales; 12–15: a quarter of the scale, F16, the lowest first |

use super::BlockType;
use super::fields::{bytes, numbers, pair, widen, word};
use super::grid::{group as points_of, offset_values};
use super::iq1_s::GRID;
use crate::GROUP;
use crate::simd::Simd;

/// The type IQ1_M.
#[derive(Clone, Copy, Debug)]
pub struct Iq1M;

impl BlockType for Iq1M {
    const NAME: &'static str = "IQ1_M";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 56;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let [a, b, c, d] = [48, 50, 52, 54].map(|at| word(block, at) >> 12);
        let scale = widen(simd, a | b << 4 | c << 8 | d << 12);
        let mut codes = [0; 16];
        for (i, code) in codes.iter_mut().enumerate() {
            *code = (word(block, 48 + i / 4 * 2) >> (i % 4 * 3) & 7) as u8;
        }
        numbers(simd, codes).map(|code| scale * (2.0 * code + 1.0))
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let lower: [u8; 4] = bytes(block, 4 * group);
        let rest = word(block, 32 + 2 * group);
        let mut indices = lower.map(usize::from);
        let mut down = 0;
        for (i, index) in indices.iter_mut().enumerate() {
            let rest = rest >> (4 * i);
            *index |= usize::from(rest & 7) << 8;
            down |= if rest & 8 != 0 { 0xFF << (8 * i) } else { 0 };
        }
        offset_values(simd, &points_of(&GRID, indices), pair(scales, group), down)
    }
}
