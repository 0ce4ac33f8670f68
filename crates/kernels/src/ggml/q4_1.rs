//! Q4_1: 32 four-bit integers with a scale and a minimum; a value is `code × scale + minimum`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 2 | minimum, F16 |
//! | 4 | 16 | codes: the low halves are elements 0–15, the high halves 16–31 |

use super::BlockType;
use super::fields::{bytes, half, split_nibbles};
use crate::GROUP;
use crate::simd::Simd;

/// The type Q4_1.
#[derive(Clone, Copy, Debug)]
pub struct Q4_1;

impl BlockType for Q4_1 {
    const NAME: &'static str = "Q4_1";
    const BLOCK_ELEMENTS: usize = 32;
    const BLOCK_BYTES: usize = 20;
    /// The scale, then the minimum.
    type Scales = [f32; 2];

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> [f32; 2] {
        [half(simd, block, 0), half(simd, block, 2)]
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], &[scale, minimum]: &[f32; 2], _group: usize) -> [f32; GROUP] {
        let codes = split_nibbles(bytes(block, 4));
        map!(code in simd.unsigned(&codes) => code * scale + minimum)
    }
}
