//! IQ4_NL: 32 four-bit codes for unevenly spaced integers, with one scale; a value is `scale × map[code]`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 16 | codes: the low nibbles are elements 0–15, the high nibbles 16–31 |
//!
//! Follows `dequantize_row_iq4_nl` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, half};
use super::map::{scaled_values, scaled_words};
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{SMALL_TABLE, Simd};

/// The type IQ4_NL.
#[derive(Clone, Copy, Debug)]
pub struct Iq4Nl;

/// The values of the codes (`kvalues_iq4nl` of ggml), also of [`Iq4Xs`](super::Iq4Xs).
pub(super) const MAP: [f32; SMALL_TABLE] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

impl GgmlBlock for Iq4Nl {
    const NAME: &'static str = "IQ4_NL";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 18;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [f32; GROUP] {
        scaled_values(simd, &MAP, *scale, bytes(block, 2))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scale: &f32, _group: usize) -> [O::Word; GROUP] {
        scaled_words::<S, O>(simd, &MAP, *scale, bytes(block, 2))
    }
}
