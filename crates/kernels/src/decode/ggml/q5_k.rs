//! Q5_K: 256 five-bit integers in eight groups of 32, each with a scale and a minimum of six bits; a value is
//! `(scale × group scale) × code − (minimum × group minimum)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale of the scales, F16 |
//! | 2 | 2 | scale of the minima, F16 |
//! | 4 | 12 | group scales and minima, six bits each, in the order of [`k_scales`](super::k_scales) |
//! | 16 | 32 | the fifth bits: bit `g` of byte `i` is that of element `i` of group `g` |
//! | 48 | 128 | the lower four bits, 32 bytes for two groups: the low nibbles are the first group, the high nibbles the second |
//!
//! Follows `dequantize_row_q5_K` of ggml.

use super::GgmlBlock;
use super::fields::bytes;
use super::k_scales::{ScalesAndMinima, scales_and_minima};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q5_K.
#[derive(Clone, Copy, Debug)]
pub struct Q5K;

impl GgmlBlock for Q5K {
    const NAME: &'static str = "Q5_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 176;
    type Scales = ScalesAndMinima;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> ScalesAndMinima {
        scales_and_minima(simd, block)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &ScalesAndMinima, group: usize) -> [f32; GROUP] {
        let fifth: [u8; GROUP] = bytes(block, 16);
        let packed: [u8; GROUP] = bytes(block, 48 + group / 2 * GROUP);
        let mut codes = [0; GROUP];
        for i in 0..GROUP {
            codes[i] = packed[i] >> (group % 2 * 4) & 0x0F | (fifth[i] >> group & 1) << 4;
        }
        let (scale, minimum) = (scales.scales[group], scales.minima[group]);
        map!(code in simd.unsigned(&codes) => scale * code - minimum)
    }
}
