//! MXFP4: 32 E2M1 codes with a power-of-two scale; a value is `scale × map[code]`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | `e`: the scale is 2^(`e` − 128), 255 included (not NaN) |
//! | 1 | 16 | codes: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! The map holds twice the E2M1 values and the scale is half the E8M0 value. Code 8 is +0.
//!
//! Follows `dequantize_row_mxfp4` of ggml.

use super::GgmlBlock;
use super::fields::bytes;
use super::map::{scaled_values, scaled_words};
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{SMALL_TABLE, Simd};

/// The type MXFP4.
#[derive(Clone, Copy, Debug)]
pub struct Mxfp4;

/// The values of the codes, doubled, in [`Nvfp4`](super::Nvfp4) too.
pub(super) const MAP: [f32; SMALL_TABLE] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

impl GgmlBlock for Mxfp4 {
    const NAME: &'static str = "MXFP4";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 17;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(_simd: S, block: &[u8]) -> f32 {
        let exponent = u32::from(block[0]);
        // The two smallest are subnormal.
        f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 })
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        scaled_values(simd, &MAP, *scale, bytes(block, 1))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [O::Word; GROUP] {
        scaled_words::<S, O>(simd, &MAP, *scale, bytes(block, 1))
    }
}
