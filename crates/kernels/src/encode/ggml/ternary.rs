//! The encoders of TQ1_0 (`quantize_row_tq1_0_ref` of ggml) and TQ2_0 (`quantize_row_tq2_0_ref`): ternary digits times
//! the largest magnitude.

use super::EncodeBlocks;
use super::lanes::{QK_K, amax, reciprocal};
use crate::base::GROUP;
use crate::base::float::{away, f16};
use crate::base::simd::Simd;
use crate::decode::ggml::{Tq1_0, Tq2_0};

/// The scale of a block, and its ternary digits 0, 1 and 2.
#[inline(always)]
fn trits<S: Simd>(simd: S, values: &[f32; QK_K]) -> (u16, [u8; QK_K]) {
    let scale = amax(simd, values);
    let inverse = reciprocal(scale);
    let mut trits = [0; QK_K];
    for (trits, values) in trits.as_chunks_mut::<GROUP>().0.iter_mut().zip(values.as_chunks::<GROUP>().0) {
        let steps = simd.truncate(&map!(value in values => away::to_truncate(value * inverse)));
        *trits = map!(step in steps => step.wrapping_add(1) as u8);
    }
    (f16::encode(scale), trits)
}

/// Five ternary digits (0 to 242) as a fixed-point fraction of 256, rounded up.
#[inline(always)]
fn fixed_point(trits: u8) -> u8 {
    (u16::from(trits) * 256).div_ceil(243) as u8
}

impl EncodeBlocks for Tq1_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<QK_K>().0.iter().zip(out.as_chunks_mut::<54>().0) {
            let (scale, trits) = trits(simd, values);
            let base_3 = |first: usize, stride: usize, count: usize| {
                (0..count).fold(0u8, |sum, n| sum.wrapping_mul(3).wrapping_add(trits[first + n * stride]))
            };
            for place in 0..32 {
                out[place] = fixed_point(base_3(place, 32, 5));
            }
            for place in 0..16 {
                out[32 + place] = fixed_point(base_3(160 + place, 16, 5));
            }
            for place in 0..4 {
                out[48 + place] = fixed_point(base_3(240 + place, 4, 4).wrapping_mul(3));
            }
            out[52..].copy_from_slice(&scale.to_le_bytes());
        }
    }
}

impl EncodeBlocks for Tq2_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<QK_K>().0.iter().zip(out.as_chunks_mut::<66>().0) {
            let (scale, trits) = trits(simd, values);
            for half in 0..2 {
                for place in 0..32 {
                    let code = |n: usize| (trits[128 * half + 32 * n + place] & 3) << (2 * n);
                    out[32 * half + place] = code(0).wrapping_add(code(1)).wrapping_add(code(2)).wrapping_add(code(3));
                }
            }
            out[64..].copy_from_slice(&scale.to_le_bytes());
        }
    }
}
