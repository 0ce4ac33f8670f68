//! IQ1_M: 256 elements as 32 points of a grid of 2048, with an offset per point and a scale of three bits for every two
//! points; a value is `(scale × (2 × group scale + 1)) × (element of the point ± 0.125)`, with the grid of
//! [`Iq1S`](super::Iq1S).
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | the lower eight bits of the points |
//! | 32 | 16 | a nibble per point, the low one first; bits 0–2: the upper three bits of the point; bit 3: the offset is negative |
//! | 48 | 8 | four 16-bit words; bits 0–11: group scales; bits 12–15: four bits of the scale, F16, lowest first |
//!
//! Follows `dequantize_row_iq1_m` of ggml.

use super::GgmlBlock;
use super::fields::{fields, in_halves, indices, pair, scaled, widen, word};
use super::grid::group as points_of;
use super::iq1_s::GRID;
use super::k_scales::twice;
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::Simd;

/// The type IQ1_M.
#[derive(Clone, Copy, Debug)]
pub struct Iq1M;

/// The group scales, in the last sixteen bytes of a block: four bits from the first bit of each, of which three are used.
#[derive(Clone, Copy, Debug)]
struct GroupScales;

impl Packing for GroupScales {
    const NAME: &'static str = "group scales";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = twice([64, 67, 70, 73, 80, 83, 86, 89, 96, 99, 102, 105, 112, 115, 118, 121]);
}

/// The positive and negative offsets of the elements of a point.
static OFFSETS: [f32; 2] = [0.125, -0.125];

impl GgmlBlock for Iq1M {
    const NAME: &'static str = "IQ1_M";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 56;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let [a, b, c, d] = [48, 50, 52, 54].map(|at| word(block, at) >> 12);
        let scale = widen(simd, a | b << 4 | c << 8 | d << 12);
        let codes = fields::<S, GroupScales, 16>(simd, block, 40);
        scaled(simd, scale, codes.map(|code| 2 * (code & 7) + 1))
    }

    #[inline(always)]
    fn values<S: Simd>(_simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let rest = in_memory(u32::from(word(block, 32 + 2 * group)));
        let mut indices = indices::<4>(block, 4 * group);
        for (i, index) in indices.iter_mut().enumerate() {
            *index |= (rest as usize >> (4 * i) & 7) << 8;
        }
        let mut values = points_of(&GRID, indices);
        for (i, point) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let offset = OFFSETS[rest as usize >> (4 * i + 3) & 1];
            for value in point {
                *value += offset;
            }
        }
        in_halves(values, pair(scales, group))
    }
}
