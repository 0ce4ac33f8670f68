//! The six-bit scales and minima of [`Q4K`](super::Q4K) and [`Q5K`](super::Q5K), as ggml's `get_scale_min_k4` unpacks them.
//!
//! | bytes | bits 0–3 | bits 4–5 | bits 6–7 |
//! |---|---|---|---|
//! | 0–3 | scales 0–3 | scales 0–3, upper bits | scales 4–7, upper bits |
//! | 4–7 | minima 0–3 | minima 0–3, upper bits | minima 4–7, upper bits |
//! | 8–11 | scales 4–7, lower bits | minima 4–7, lower bits (bits 4–7 of the byte) | |

use super::fields::{fields, half};
use super::memory::in_memory;
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::Simd;

/// The scales and minima of eight groups.
#[derive(Clone, Copy, Debug)]
pub struct ScalesAndMinima {
    pub(super) scales: [f32; 8],
    pub(super) minima: [f32; 8],
}

/// The lower four bits of all scales, then of all minima.
#[derive(Clone, Copy, Debug)]
struct Lower;

impl Packing for Lower {
    const NAME: &'static str = "lower bits of scales";
    const BITS: usize = 4;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = twice([0, 8, 16, 24, 64, 72, 80, 88, 32, 40, 48, 56, 68, 76, 84, 92]);
}

/// The upper two bits of all scales, then of all minima.
#[derive(Clone, Copy, Debug)]
struct Upper;

impl Packing for Upper {
    const NAME: &'static str = "upper bits of scales";
    const BITS: usize = 2;
    const UNIT: usize = 16;
    const POSITIONS: [u8; GROUP] = twice([4, 12, 20, 28, 6, 14, 22, 30, 36, 44, 52, 60, 38, 46, 54, 62]);
}

/// Sixteen positions, repeated once.
pub(super) const fn twice(positions: [u8; 16]) -> [u8; GROUP] {
    let mut all = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        all[i] = positions[i % 16];
        i += 1;
    }
    all
}

/// The scales and minima at the start of a block, times the F16 scales of the super-block.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 2 | scale of the scales, F16 |
/// | 2 | 2 | scale of the minima, F16 |
/// | 4 | 12 | the scales and minima |
#[inline(always)]
pub(super) fn scales_and_minima<S: Simd>(simd: S, block: &[u8]) -> ScalesAndMinima {
    let (scale, minimum) = (half(simd, block, 0), half(simd, block, 2));
    let lower: [u8; 16] = fields::<S, Lower, 16>(simd, block, 4);
    let upper: [u8; 16] = fields::<S, Upper, 16>(simd, block, 4);
    let mut codes = [0; GROUP];
    for i in 0..16 {
        codes[i] = lower[i] | upper[i] << 4;
    }
    let codes = simd.unsigned(&codes);
    let mut all = ScalesAndMinima { scales: [0.0; 8], minima: [0.0; 8] };
    for i in 0..8 {
        all.scales[i] = scale * codes[i];
        all.minima[i] = minimum * codes[i + 8];
    }
    in_memory(all)
}
