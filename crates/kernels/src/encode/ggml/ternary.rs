//! Three values, by the largest: TQ1_0 (`quantize_row_tq1_0_ref` of ggml) and TQ2_0 (`quantize_row_tq2_0_ref`).

use super::EncodeBlocks;
use super::lanes::{SUPER, inverse, size};
use crate::base::GROUP;
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Tq1_0, Tq2_0};

/// The scale of a block, and the value of each place as 0, 1 or 2.
#[inline(always)]
fn thirds<S: Simd>(simd: S, values: &[f32; SUPER]) -> (u16, [u8; SUPER]) {
    let scale = size(simd, values);
    let inverse = inverse(scale);
    let mut thirds = [0; SUPER];
    for (thirds, values) in thirds.as_chunks_mut::<GROUP>().0.iter_mut().zip(values.as_chunks::<GROUP>().0) {
        let steps = simd.truncate(&map!(value in values => (value * inverse).round()));
        *thirds = map!(step in steps => step.wrapping_add(1) as u8);
    }
    (f16::encode(scale), thirds)
}

/// Five thirds as a fraction of 256, rounded up.
#[inline(always)]
fn fraction(thirds: u8) -> u8 {
    (u16::from(thirds) * 256).div_ceil(243) as u8
}

impl EncodeBlocks for Tq1_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<54>().0) {
            let (scale, thirds) = thirds(simd, values);
            let five = |first: usize, stride: usize, count: usize| {
                (0..count).fold(0u8, |sum, n| sum.wrapping_mul(3).wrapping_add(thirds[first + n * stride]))
            };
            for place in 0..32 {
                out[place] = fraction(five(place, 32, 5));
            }
            for place in 0..16 {
                out[32 + place] = fraction(five(160 + place, 16, 5));
            }
            for place in 0..4 {
                out[48 + place] = fraction(five(240 + place, 4, 4).wrapping_mul(3));
            }
            out[52..].copy_from_slice(&scale.to_le_bytes());
        }
    }
}

impl EncodeBlocks for Tq2_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<66>().0) {
            let (scale, thirds) = thirds(simd, values);
            for half in 0..2 {
                for place in 0..32 {
                    let code = |n: usize| (thirds[128 * half + 32 * n + place] & 3) << (2 * n);
                    out[32 * half + place] = code(0).wrapping_add(code(1)).wrapping_add(code(2)).wrapping_add(code(3));
                }
            }
            out[64..].copy_from_slice(&scale.to_le_bytes());
        }
    }
}
