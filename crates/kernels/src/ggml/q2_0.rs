//! Q2_0: 64 two-bit integers with one scale; a value is `(code − 1) × scale`.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | scale, F16 |
//! | 2 | 16 | codes, element 0 lowest |

use super::BlockType;
use super::fields::{bytes, half};
use crate::GROUP;
use crate::packing::{Bits2, Packing};
use crate::simd::Simd;

/// The type Q2_0.
#[derive(Clone, Copy, Debug)]
pub struct Q2_0;

impl BlockType for Q2_0 {
    const NAME: &'static str = "Q2_0";
    const BLOCK_ELEMENTS: usize = 64;
    const BLOCK_BYTES: usize = 18;
    type Scales = f32;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &[u8]) -> f32 {
        half(simd, block, 0)
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scale: &f32, group: usize) -> [f32; GROUP] {
        let codes = Bits2::unpack(simd, &bytes::<8>(block, 2 + 8 * group));
        map!(code in simd.unsigned(&codes) => (code - 1.0) * scale)
    }
}
