//! The encoders of Q3_K (`quantize_row_q3_K_ref` and `quantize_row_q3_K_impl` of ggml) and Q6_K
//! (`quantize_row_q6_K_ref`, `quantize_row_q6_K_impl`), whose sub-blocks have a scale and signed codes.

use super::lanes::{
    GROUP_MAX_EPS, LANES, Lanes, QK_K, each, importance_weights, max_by_magnitude, nearest_int, sum_of_squares,
    to_lanes,
};
use super::q3_quants::{STRIP, refine_codes};
use super::search::{QxQuants, make_qx_quants};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q3K, Q6K};

/// Quantises a sub-block with its final scale; codes are shifted to start at zero.
#[inline(always)]
fn requantise(levels: &mut [u8; 16], values: &[f32; 16], step: f32, half: i32) {
    for place in 0..16 {
        levels[place] = (nearest_int(values[place] / step).min(half - 1).max(-half) + half) as u8;
    }
}

/// The codes that the search for the scale found.
#[inline(always)]
fn codes_of_search(levels: &mut [u8; 16], values: &[f32; 16], found: &QxQuants, lane: usize) {
    for place in 0..16 {
        levels[place] = found.code(lane, values[place]);
    }
}

impl EncodeBlocks for Q3K {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (values, out) = (values.as_chunks::<QK_K>().0, out.as_chunks_mut::<110>().0);
        let Some(importance) = importance else {
            for (values, out) in values.chunks(STRIP).zip(out.chunks_mut(STRIP)) {
                let levels = refine_codes(simd, values, 4, |block, scales, levels| {
                    q3_k_ref(&values[block], scales, levels, &mut out[block])
                });
                for (levels, out) in levels.iter().zip(out) {
                    pack_q3_k(levels, out);
                }
            }
            return;
        };
        for (index, (values, out)) in values.iter().zip(out).enumerate() {
            q3_k_impl(simd, values, &importance[index * QK_K..][..QK_K], out);
        }
    }
}

/// Writes the scales of a super-block and quantises the sub-blocks whose scale is not zero. Returns a bit for each
/// other sub-block that has values.
#[inline(always)]
fn q3_k_ref(values: &[f32; QK_K], scales: &Lanes, levels: &mut [u8; QK_K], out: &mut [u8; 110]) -> u16 {
    let (largest, _) = max_by_magnitude(scales);
    let inverse = -32.0 / largest;
    let codes = each!(k => (i32::from(nearest_int(inverse * scales[k]) as i8).clamp(-32, 31) + 32) as u8);
    let (scale, codes) = if largest == 0.0 { (0.0, None) } else { (1.0 / inverse, Some(codes)) };
    let steps = write_scales_q3_k(scale, codes.as_ref(), out);
    let mut unscaled = 0;
    for (part, (levels, values)) in levels.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0).enumerate() {
        if steps[part] != 0.0 {
            requantise(levels, values, steps[part], 4);
        } else if max_by_magnitude(values).1 >= GROUP_MAX_EPS {
            unscaled |= 1 << part;
        }
    }
    unscaled
}

#[inline(always)]
fn q3_k_impl<S: Simd>(simd: S, values: &[f32; QK_K], importance: &[f32], out: &mut [u8; 110]) {
    let places = to_lanes::<S, 16>(simd, values);
    let variance = 2.0 * sum_of_squares(values) / QK_K as f32;
    let weights = importance_weights(&places, &to_lanes(simd, importance), &[variance; LANES]);
    let found = make_qx_quants(&places, &weights, 4);
    // The scales are quantised like a sub-block, each weighted by the sum of its weights.
    let (mut of_scales, mut sums) = ([[0.0; LANES]; LANES], [[0.0; LANES]; LANES]);
    for k in 0..LANES {
        of_scales[k][0] = found.scales[k];
        sums[k][0] = weights.iter().fold(0.0, |sum, weights| sum + weights[k]);
    }
    let outer = make_qx_quants(&of_scales, &sums, 32);
    let steps = write_scales_q3_k(outer.scales[0], Some(&each!(k => outer.code(0, found.scales[k]))), out);
    let mut levels = [0; QK_K];
    for (part, (levels, values)) in levels.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0).enumerate() {
        if steps[part] != 0.0 {
            requantise(levels, values, steps[part], 4);
        } else {
            codes_of_search(levels, values, &found, part);
        }
    }
    pack_q3_k(&levels, out);
}

/// Writes the super-block scale and the six-bit codes; returns the final scale of each sub-block.
#[inline(always)]
fn write_scales_q3_k(scale: f32, codes: Option<&[u8; LANES]>, out: &mut [u8; 110]) -> Lanes {
    let mut packed = [0u8; 12];
    for (j, code) in codes.into_iter().flatten().enumerate() {
        packed[j % 8] |= (code & 15) << (j / 8 * 4);
        packed[8 + j % 4] |= (code >> 4) << (2 * (j / 4));
    }
    let scale = f16::encode(scale);
    out[96..108].copy_from_slice(&packed);
    out[108..].copy_from_slice(&scale.to_le_bytes());
    let codes = codes.copied().unwrap_or_default();
    each!(k => f16::decode(scale) * (i32::from(codes[k]) - 32) as f32)
}

#[inline(always)]
fn pack_q3_k(levels: &[u8; QK_K], out: &mut [u8; 110]) {
    for place in 0..32 {
        out[place] = (0..8).fold(0, |bits, eighth| bits | (levels[32 * eighth + place] >> 2) << eighth);
    }
    for half in 0..2 {
        for place in 0..32 {
            let level = |quarter: usize| (levels[128 * half + 32 * quarter + place] & 3) << (2 * quarter);
            out[32 + 32 * half + place] = level(0) | level(1) | level(2) | level(3);
        }
    }
}

super_blocks!(Q6K, 210, q6_k);

#[inline(always)]
fn q6_k<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 210]) {
    let places = to_lanes::<S, 16>(simd, values);
    let weights = match importance {
        Some(importance) => to_lanes(simd, importance),
        None => {
            let mut squares = places;
            squares.iter_mut().flatten().for_each(|value| *value *= *value);
            squares
        }
    };
    let found = make_qx_quants(&places, &weights, 32);
    let (largest, size) = max_by_magnitude(&found.scales);
    if size < GROUP_MAX_EPS {
        return out.fill(0);
    }
    let inverse = -128.0 / largest;
    let scale = f16::encode(1.0 / inverse);
    let codes: [i8; LANES] = each!(k => nearest_int(inverse * found.scales[k]).min(127) as i8);
    let mut levels = [0u8; QK_K];
    for (lane, (levels, values)) in
        levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate()
    {
        let step = f16::decode(scale) * f32::from(codes[lane]);
        if step == 0.0 {
            codes_of_search(levels, values, &found, lane);
        } else {
            requantise(levels, values, step, 32);
        }
    }
    for (half, levels) in levels.as_chunks::<128>().0.iter().enumerate() {
        for place in 0..32 {
            let level = |quarter: usize| levels[32 * quarter + place];
            out[64 * half + place] = level(0) & 15 | (level(2) & 15) << 4;
            out[64 * half + 32 + place] = level(1) & 15 | (level(3) & 15) << 4;
            out[128 + 32 * half + place] =
                level(0) >> 4 | (level(1) >> 4) << 2 | (level(2) >> 4) << 4 | (level(3) >> 4) << 6;
        }
    }
    for (out, code) in out[192..208].iter_mut().zip(codes) {
        *out = code.cast_unsigned();
    }
    out[208..].copy_from_slice(&scale.to_le_bytes());
}
