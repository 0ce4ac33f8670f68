//! Super-blocks whose sub-blocks have a scale, and codes around zero: Q3_K, Q6_K.

use super::lanes::{LANES, SMALLEST, SUPER, extreme, nearest, side_by_side, squares, weighted};
use super::search::{mended, signed};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q3K, Q6K};

/// The codes of a sub-block under its final scale, from zero on; without one they stay.
#[inline(always)]
fn refine(levels: &mut [u8], values: &[f32], step: f32, half: i32) {
    if step == 0.0 {
        return;
    }
    for (level, value) in levels.iter_mut().zip(values) {
        *level = (nearest(value / step).min(half - 1).max(-half) + half) as u8;
    }
}

super_blocks!(Q3K, 110, q3_k);

#[inline(always)]
fn q3_k(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 110]) {
    let places = side_by_side::<16>(values);
    let mut levels = [0u8; SUPER];
    // The scale of scales, and the six-bit codes of scales, from zero on.
    let (scale, codes): (f32, Option<[u8; LANES]>);
    match importance {
        None => {
            let (scales, found) = mended(&places, 4);
            for (place, found) in found.iter().enumerate() {
                for (lane, code) in found.iter().enumerate() {
                    levels[16 * lane + place] = *code as u8;
                }
            }
            let (largest, _) = extreme(&scales);
            let inverse = -32.0 / largest;
            (scale, codes) = match largest == 0.0 {
                true => (0.0, None),
                false => {
                    let code = |scale: f32| (i32::from(nearest(inverse * scale) as i8).clamp(-32, 31) + 32) as u8;
                    (1.0 / inverse, Some(scales.map(code)))
                }
            };
        }
        Some(importance) => {
            let variance = 2.0 * squares(values) / SUPER as f32;
            let weights = weighted(&places, &side_by_side(importance), &[variance; LANES]);
            let mut sums = [0.0; LANES];
            for weights in &weights {
                for k in 0..LANES {
                    sums[k] += weights[k];
                }
            }
            let found = signed(&places, &weights, 4);
            for (lane, (levels, values)) in
                levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate()
            {
                for (level, &value) in levels.iter_mut().zip(values) {
                    *level = found.code(lane, value);
                }
            }
            // The scales are one sub-block themselves.
            let (mut of_scales, mut of_sums) = ([[0.0; LANES]; LANES], [[0.0; LANES]; LANES]);
            for k in 0..LANES {
                (of_scales[k][0], of_sums[k][0]) = (found.scales[k], sums[k]);
            }
            let outer = signed(&of_scales, &of_sums, 32);
            (scale, codes) = (outer.scales[0], Some(found.scales.map(|scale| outer.code(0, scale))));
        }
    }
    let mut packed = [0u8; 12];
    for (j, code) in codes.iter().flatten().enumerate() {
        packed[j % 8] |= (code & 15) << (j / 8 * 4);
        packed[8 + j % 4] |= (code >> 4) << (2 * (j / 4));
    }
    let scale = f16::encode(scale);
    for (j, (levels, values)) in levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate() {
        let low = packed[j % 8] >> (j / 8 * 4) & 15;
        let code = i32::from(low | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
        refine(levels, values, f16::decode(scale) * code as f32, 4);
    }
    out.fill(0);
    for (place, level) in levels.iter().enumerate() {
        out[place % 32] |= (level >> 2) << (place / 32);
    }
    for half in 0..2 {
        for place in 0..32 {
            let level = |quarter: usize| (levels[128 * half + 32 * quarter + place] & 3) << (2 * quarter);
            out[32 + 32 * half + place] = level(0) | level(1) | level(2) | level(3);
        }
    }
    out[96..108].copy_from_slice(&packed);
    out[108..].copy_from_slice(&scale.to_le_bytes());
}

super_blocks!(Q6K, 210, q6_k);

#[inline(always)]
fn q6_k(values: &[f32; SUPER], importance: Option<&[f32]>, out: &mut [u8; 210]) {
    let places = side_by_side::<16>(values);
    let weights = match importance {
        Some(importance) => side_by_side(importance),
        None => {
            let mut squares = places;
            squares.iter_mut().flatten().for_each(|value| *value *= *value);
            squares
        }
    };
    let found = signed(&places, &weights, 32);
    let (largest, size) = extreme(&found.scales);
    if size < SMALLEST {
        return out.fill(0);
    }
    let inverse = -128.0 / largest;
    let scale = f16::encode(1.0 / inverse);
    let codes = found.scales.map(|scale| nearest(inverse * scale).min(127) as i8);
    let mut levels = [0u8; SUPER];
    for (lane, (levels, values)) in
        levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate()
    {
        for (level, &value) in levels.iter_mut().zip(values) {
            *level = found.code(lane, value);
        }
        refine(levels, values, f16::decode(scale) * f32::from(codes[lane]), 32);
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
