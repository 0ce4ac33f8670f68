//! The six-bit scales and minima of [`Q4K`](super::Q4K) and [`Q5K`](super::Q5K).
//!
//! | bytes | bits 0–3 | bits 4–5 | bits 6–7 |
//! |---|---|---|---|
//! | 0–3 | scales 0–3 | scales 0–3, upper bits | scales 4–7, upper bits |
//! | 4–7 | minima 0–3 | minima 0–3, upper bits | minima 4–7, upper bits |
//! | 8–11 | scales 4–7, lower bits | minima 4–7, lower bits (bits 4–7 of the byte) | |

use super::fields::{double_word, half};
use crate::GROUP;
use crate::simd::Simd;

/// The scales and minima of eight groups.
#[derive(Clone, Copy, Debug)]
pub struct ScalesAndMinima {
    pub(super) scales: [f32; 8],
    pub(super) minima: [f32; 8],
}

/// The scales and minima at the beginning of a block, multiplied with their own scales.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 2 | scale of the scales, F16 |
/// | 2 | 2 | scale of the minima, F16 |
/// | 4 | 12 | the scales and minima |
#[inline(always)]
pub(super) fn scales_and_minima<S: Simd>(simd: S, block: &[u8]) -> ScalesAndMinima {
    let (scale, minimum) = (half(simd, block, 0), half(simd, block, 2));
    let [first, second, third] = [4, 8, 12].map(|at| double_word(block, at));
    let words = [
        first & 0x3F3F_3F3F,
        third & 0x0F0F_0F0F | first >> 2 & 0x3030_3030,
        second & 0x3F3F_3F3F,
        third >> 4 & 0x0F0F_0F0F | second >> 2 & 0x3030_3030,
    ];
    let mut codes = [0; GROUP];
    for (to, word) in codes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    let codes = simd.unsigned(&codes);
    let mut all = ScalesAndMinima { scales: [0.0; 8], minima: [0.0; 8] };
    for i in 0..8 {
        all.scales[i] = scale * codes[i];
        all.minima[i] = minimum * codes[i + 8];
    }
    all
}
