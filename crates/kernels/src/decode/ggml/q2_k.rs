//! Q2_K: 256 two-bit integers in sixteen groups of 16, each with a scale and a minimum of four bits; a value is
//! `(scale × group scale) × code − (minimum × group minimum)`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 16 | a byte per group: the scale in the low nibble, the minimum in the high nibble |
//! | 16 | 64 | codes, 32 bytes for each 128 elements, lowest first: elements `i`, `i + 32`, `i + 64`, `i + 96` |
//! | 80 | 2 | scale of the scales, F16 |
//! | 82 | 2 | scale of the minima, F16 |
//!
//! Follows `dequantize_row_q2_K` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half, in_halves, pair, scaled};
use crate::base::GROUP;
use crate::base::simd::Simd;

/// The type Q2_K.
#[derive(Clone, Copy, Debug)]
pub struct Q2K;

/// The scales and minima of sixteen groups.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    scales: [f32; 16],
    minima: [f32; 16],
}

impl GgmlBlock for Q2K {
    const NAME: &'static str = "Q2_K";
    const BLOCK_ELEMENTS: usize = 256;
    const BLOCK_BYTES: usize = 84;
    type Scales = Scales;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> Scales {
        let (scale, minimum) = (half(simd, block, 80), half(simd, block, 82));
        let packed: [u8; 16] = bytes(block, 0);
        Scales {
            scales: scaled(simd, scale, packed.map(|byte| byte & 0x0F)),
            minima: scaled(simd, minimum, packed.map(|byte| byte >> 4)),
        }
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &Scales, group: usize) -> [f32; GROUP] {
        let packed: [u8; GROUP] = bytes(block, 16 + group / 4 * GROUP);
        let codes = map!(byte in packed => byte >> (group % 4 * 2) & 3);
        let mut values = in_halves(simd.unsigned(&codes), pair(&scales.scales, group));
        let [first, second] = pair(&scales.minima, group);
        for value in &mut values[..GROUP / 2] {
            *value -= first;
        }
        for value in &mut values[GROUP / 2..] {
            *value -= second;
        }
        values
    }
}
