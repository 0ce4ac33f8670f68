//! Super-blocks whose sub-blocks have a scale, and codes around zero: Q3_K, Q6_K.

use super::lanes::{LANES, Lanes, SMALLEST, SUPER, each, extreme, nearest, side_by_side, squares, weighted};
use super::search::{MENDED, Mended, Signed, mended, signed};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q3K, Q6K};

/// The codes of a sub-block under its final scale, from zero on; without one they are as they were found.
#[inline(always)]
fn refine(levels: &mut [u8; 16], values: &[f32; 16], step: f32, half: i32, found: impl Fn(usize, f32) -> u8) {
    if step == 0.0 {
        for place in 0..16 {
            levels[place] = found(place, values[place]);
        }
        return;
    }
    for place in 0..16 {
        levels[place] = (nearest(values[place] / step).min(half - 1).max(-half) + half) as u8;
    }
}

/// The scales of Q3_K and the codes as a search found them.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and it stays where it is")]
enum Searched {
    Mended(Mended<16>),
    /// With the sums of weights.
    Signed(Signed, Lanes),
}

impl Searched {
    /// The scale of scales, and their six-bit codes from zero on, if any.
    #[inline(always)]
    fn scales(&self) -> (f32, Option<[u8; LANES]>) {
        match self {
            Self::Mended((scales, _)) => {
                let (largest, _) = extreme(scales);
                let inverse = -32.0 / largest;
                let codes = each!(k => (i32::from(nearest(inverse * scales[k]) as i8).clamp(-32, 31) + 32) as u8);
                if largest == 0.0 { (0.0, None) } else { (1.0 / inverse, Some(codes)) }
            }
            Self::Signed(found, sums) => {
                // The scales are one sub-block themselves.
                let (mut of_scales, mut of_sums) = ([[0.0; LANES]; LANES], [[0.0; LANES]; LANES]);
                for k in 0..LANES {
                    (of_scales[k][0], of_sums[k][0]) = (found.scales[k], sums[k]);
                }
                let outer = signed(&of_scales, &of_sums, 32);
                (outer.scales[0], Some(each!(k => outer.code(0, found.scales[k]))))
            }
        }
    }

    #[inline(always)]
    fn code(&self, lane: usize, place: usize, value: f32) -> u8 {
        match self {
            Self::Mended((_, codes)) => codes[place][lane] as u8,
            Self::Signed(found, _) => found.code(lane, value),
        }
    }
}

impl EncodeBlocks for Q3K {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let strips = values.as_chunks::<SUPER>().0.chunks(MENDED).zip(out.as_chunks_mut::<110>().0.chunks_mut(MENDED));
        for (strip, (values, out)) in strips.enumerate() {
            let mut places = [[[0.0; LANES]; 16]; MENDED];
            for (places, values) in places.iter_mut().zip(values) {
                *places = side_by_side::<S, 16>(simd, values);
            }
            match importance {
                None => {
                    for ((values, out), found) in values.iter().zip(out).zip(mended(&places, 4)) {
                        q3_k(values, &Searched::Mended(found), out);
                    }
                }
                Some(importance) => {
                    for (index, (values, out)) in values.iter().zip(out).enumerate() {
                        let importance = &importance[(strip * MENDED + index) * SUPER..][..SUPER];
                        let variance = 2.0 * squares(values) / SUPER as f32;
                        let places = &places[index];
                        let weights = weighted(places, &side_by_side(simd, importance), &[variance; LANES]);
                        let mut sums = [0.0; LANES];
                        for weights in &weights {
                            for k in 0..LANES {
                                sums[k] += weights[k];
                            }
                        }
                        q3_k(values, &Searched::Signed(signed(places, &weights, 4), sums), out);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn q3_k(values: &[f32; SUPER], found: &Searched, out: &mut [u8; 110]) {
    let (scale, codes) = found.scales();
    let mut packed = [0u8; 12];
    for (j, code) in codes.iter().flatten().enumerate() {
        packed[j % 8] |= (code & 15) << (j / 8 * 4);
        packed[8 + j % 4] |= (code >> 4) << (2 * (j / 4));
    }
    let scale = f16::encode(scale);
    let mut levels = [0u8; SUPER];
    for (j, (levels, values)) in levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate() {
        let low = packed[j % 8] >> (j / 8 * 4) & 15;
        let code = i32::from(low | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
        refine(levels, values, f16::decode(scale) * code as f32, 4, |place, value| found.code(j, place, value));
    }
    for place in 0..32 {
        out[place] = (0..8).fold(0, |bits, eighth| bits | (levels[32 * eighth + place] >> 2) << eighth);
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
        let step = f16::decode(scale) * f32::from(codes[lane]);
        refine(levels, values, step, 32, |_, value| found.code(lane, value));
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
