//! Q3_K: 256 three-bit integers in sixteen groups of 16, each with a scale of six bits; a value is
//! `(scale × (group scale − 32)) × (code − 4)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 32 | the third bits: bit `b` of byte `i` is that of element `32 b + i` |
//! | 32 | 64 | the lower two bits, 32 bytes for each 128 elements, lowest first: elements `i`, `i + 32`, `i + 64`, `i + 96` |
//! | 96 | 8 | the lower four bits of the group scales: the low halves are 0–7, the high halves 8–15 |
//! | 104 | 4 | the upper two bits of the group scales, lowest first: scales `i`, `i + 4`, `i + 8`, `i + 12` |
//! | 108 | 2 | scale, F16 |

use super::BlockType;
use super::fields::{bytes, double_word, half, in_halves, numbers, pair};
use crate::GROUP;
use crate::simd::Simd;

/// The type Q3_K.
#[derive(Clone, Copy, Debug)]
pub struct Q3K;

impl BlockType for Q3K {
    const NAME: &'static str = "Q3_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 110;
    type Scales = [f32; 16];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 16] {
        let scale = half(simd, block, 108);
        let [first, second, upper] = [96, 100, 104].map(|at| double_word(block, at));
        let words = [
            first & 0x0F0F_0F0F | (upper & 0x0303_0303) << 4,
            second & 0x0F0F_0F0F | (upper >> 2 & 0x0303_0303) << 4,
            first >> 4 & 0x0F0F_0F0F | (upper >> 4 & 0x0303_0303) << 4,
            second >> 4 & 0x0F0F_0F0F | (upper >> 6 & 0x0303_0303) << 4,
        ];
        let mut codes = [0; 16];
        for (to, word) in codes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        numbers(simd, codes).map(|code| scale * (code - 32.0))
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 16], group: usize) -> [f32; GROUP] {
        let third: [u8; GROUP] = bytes(block, 0);
        let lower: [u8; GROUP] = bytes(block, 32 + group / 4 * GROUP);
        let mut integers = [0; GROUP];
        for i in 0..GROUP {
            let code = lower[i] >> (group % 4 * 2) & 3 | (third[i] >> group & 1) << 2;
            integers[i] = code.wrapping_sub(4);
        }
        in_halves(simd.signed(&integers), pair(scales, group))
    }
}
