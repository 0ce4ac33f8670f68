//! IQ4_XS: 256 four-bit codes for unevenly spaced integers in eight groups of 32, each with a scale of six bits; a value
//! is `(scale × (group scale − 32)) × map[code]`, with the map of [`Iq4Nl`](super::Iq4Nl).
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 2 | the upper two bits of the group scales, group 0 lowest |
//! | 4 | 4 | the lower four bits of the group scales, low nibble first |
//! | 8 | 128 | codes, 16 bytes per group: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_iq4_xs` of ggml.

use super::GgmlBlock;
use super::fields::{Nibbles, Pairs, bytes, fields, half, scaled};
use super::iq4_nl::MAP;
use super::map::{scaled_values, scaled_words};
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::Simd;

/// The type IQ4_XS.
#[derive(Clone, Copy, Debug)]
pub struct Iq4Xs;

impl GgmlBlock for Iq4Xs {
    const NAME: &'static str = "IQ4_XS";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 136;
    type Scales = [f32; 8];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 8] {
        let scale = half(simd, block, 0);
        let lower = fields::<S, Nibbles<32, 4>, 8>(simd, block, 0);
        let upper = fields::<S, Pairs<16, 2>, 8>(simd, block, 0);
        let mut codes = [0u8; 8];
        for i in 0..8 {
            codes[i] = (lower[i] | upper[i] << 4).wrapping_sub(32);
        }
        scaled(simd, scale, codes)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 8], group: usize) -> [f32; GROUP] {
        scaled_values(simd, &MAP, scales[group], bytes(block, 8 + 16 * group))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scales: &[f32; 8], group: usize) -> [O::Word; GROUP] {
        scaled_words::<S, O>(simd, &MAP, scales[group], bytes(block, 8 + 16 * group))
    }
}
