//! Super-blocks whose sub-blocks have a scale and signed codes: Q3_K (`quantize_row_q3_K_ref`, `quantize_row_q3_K_impl` of ggml)
//! and Q6_K (`quantize_row_q6_K_ref`, `quantize_row_q6_K_impl`).

use super::lanes::{LANES, Lanes, SMALLEST, SUPER, each, extreme, nearest, side_by_side, squares, weighted};
use super::refine::{STRIP, refine_codes};
use super::search::{Signed, make_qx_quants};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q3K, Q6K};

/// The codes of a sub-block under its final scale, from zero on.
#[inline(always)]
fn refine(levels: &mut [u8; 16], values: &[f32; 16], step: f32, half: i32) {
    for place in 0..16 {
        levels[place] = (nearest(values[place] / step).min(half - 1).max(-half) + half) as u8;
    }
}

/// The codes of a sub-block as they were found.
#[inline(always)]
fn found_codes(levels: &mut [u8; 16], values: &[f32; 16], found: &Signed, lane: usize) {
    for place in 0..16 {
        levels[place] = found.code(lane, values[place]);
    }
}

impl EncodeBlocks for Q3K {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (values, out) = (values.as_chunks::<SUPER>().0, out.as_chunks_mut::<110>().0);
        let Some(importance) = importance else {
            for (values, out) in values.chunks(STRIP).zip(out.chunks_mut(STRIP)) {
                let levels = refine_codes(simd, values, 4, |block, scales, levels| {
                    refined_q3_k(&values[block], scales, levels, &mut out[block])
                });
                for (levels, out) in levels.iter().zip(out) {
                    pack_q3_k(levels, out);
                }
            }
            return;
        };
        for (index, (values, out)) in values.iter().zip(out).enumerate() {
            weighted_q3_k(simd, values, &importance[index * SUPER..][..SUPER], out);
        }
    }
}

/// Sets the scales of a super-block and the levels of sub-blocks that have one; a bit for each of the others that are not zero.
#[inline(always)]
fn refined_q3_k(values: &[f32; SUPER], scales: &Lanes, levels: &mut [u8; SUPER], out: &mut [u8; 110]) -> u16 {
    let (largest, _) = extreme(scales);
    let inverse = -32.0 / largest;
    let codes = each!(k => (i32::from(nearest(inverse * scales[k]) as i8).clamp(-32, 31) + 32) as u8);
    let (scale, codes) = if largest == 0.0 { (0.0, None) } else { (1.0 / inverse, Some(codes)) };
    let steps = scales_q3_k(scale, codes.as_ref(), out);
    let mut without = 0;
    for (part, (levels, values)) in levels.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0).enumerate() {
        if steps[part] != 0.0 {
            refine(levels, values, steps[part], 4);
        } else if extreme(values).1 >= SMALLEST {
            without |= 1 << part;
        }
    }
    without
}

#[inline(always)]
fn weighted_q3_k<S: Simd>(simd: S, values: &[f32; SUPER], importance: &[f32], out: &mut [u8; 110]) {
    let places = side_by_side::<S, 16>(simd, values);
    let variance = 2.0 * squares(values) / SUPER as f32;
    let weights = weighted(&places, &side_by_side(simd, importance), &[variance; LANES]);
    let found = make_qx_quants(&places, &weights, 4);
    // The scales are one sub-block themselves, as important as their values together.
    let (mut of_scales, mut sums) = ([[0.0; LANES]; LANES], [[0.0; LANES]; LANES]);
    for k in 0..LANES {
        of_scales[k][0] = found.scales[k];
        sums[k][0] = weights.iter().fold(0.0, |sum, weights| sum + weights[k]);
    }
    let outer = make_qx_quants(&of_scales, &sums, 32);
    let steps = scales_q3_k(outer.scales[0], Some(&each!(k => outer.code(0, found.scales[k]))), out);
    let mut levels = [0; SUPER];
    for (part, (levels, values)) in levels.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0).enumerate() {
        if steps[part] != 0.0 {
            refine(levels, values, steps[part], 4);
        } else {
            found_codes(levels, values, &found, part);
        }
    }
    pack_q3_k(&levels, out);
}

/// Sets the scale and its six-bit codes, if any; the step that each sub-block then has.
#[inline(always)]
fn scales_q3_k(scale: f32, codes: Option<&[u8; LANES]>, out: &mut [u8; 110]) -> Lanes {
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
fn pack_q3_k(levels: &[u8; SUPER], out: &mut [u8; 110]) {
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
fn q6_k<S: Simd>(simd: S, values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 210]) {
    let places = side_by_side::<S, 16>(simd, values);
    let weights = match importance {
        Some(importance) => side_by_side(simd, importance),
        None => {
            let mut squares = places;
            squares.iter_mut().flatten().for_each(|value| *value *= *value);
            squares
        }
    };
    let found = make_qx_quants(&places, &weights, 32);
    let (largest, size) = extreme(&found.scales);
    if size < SMALLEST {
        return out.fill(0);
    }
    let inverse = -128.0 / largest;
    let scale = f16::encode(1.0 / inverse);
    let codes: [i8; LANES] = each!(k => nearest(inverse * found.scales[k]).min(127) as i8);
    let mut levels = [0u8; SUPER];
    for (lane, (levels, values)) in
        levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate()
    {
        let step = f16::decode(scale) * f32::from(codes[lane]);
        if step == 0.0 {
            found_codes(levels, values, &found, lane);
        } else {
            refine(levels, values, step, 32);
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
