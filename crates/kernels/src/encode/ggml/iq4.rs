//! The encoders of IQ4_NL and IQ4_XS, whose codes index a table of sixteen unevenly spaced values. Both follow
//! `quantize_row_iq4_nl_impl` of ggml.

use super::lanes::{
    GROUP_MAX_EPS, LANES, Lanes, QK_K, each, importance_weights, max_by_magnitude, nearest_int, reciprocal,
    sum_of_squares, to_lanes,
};
use super::search::lane_max;
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq4Nl, Iq4Xs};

/// Values of a sub-block.
const BLOCK: usize = 32;

/// The value of each code (`kvalues_iq4nl`).
const KVALUES_IQ4NL: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// The midpoint of each pair of neighbouring values; a tie goes to the higher code. At the midpoints the distances to
/// both values are exact.
const MIDPOINTS: [f32; 15] = {
    let mut limits = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        limits[i] = (KVALUES_IQ4NL[i] + KVALUES_IQ4NL[i + 1]) / 2.0;
        i += 1;
    }
    limits
};

/// The code of the nearest value (`best_index_int8`); 15 for NaN.
#[inline(always)]
fn best_index(number: f32) -> u8 {
    let mut code = 15;
    for limit in MIDPOINTS {
        code -= u8::from(number < limit);
    }
    code
}

/// The nearest value.
#[inline(always)]
fn best_value(number: f32) -> f32 {
    let mut value = KVALUES_IQ4NL[15];
    for i in 0..15 {
        value -= if number < MIDPOINTS[i] { KVALUES_IQ4NL[i + 1] - KVALUES_IQ4NL[i] } else { 0.0 };
    }
    value
}

/// Finds the scales of sub-blocks: several candidates around the largest value, each refined by least squares.
#[inline(always)]
fn find_scales(values: &[Lanes; BLOCK], weights: &[Lanes; BLOCK]) -> Lanes {
    const NTRY: i32 = 7;
    let (extreme, size) = lane_max(values);
    let sums = |iscale: &Lanes| {
        let (mut sum_qx, mut sum_q2): (Lanes, Lanes) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..BLOCK {
            for k in 0..LANES {
                let (x, w) = (values[i][k], weights[i][k]);
                let q = best_value(iscale[k] * x);
                sum_qx[k] += w * q * x;
                sum_q2[k] += w * q * q;
            }
        }
        (sum_qx, sum_q2)
    };
    let inverse: Lanes = each!(k => 1.0 / (-extreme[k] / KVALUES_IQ4NL[0]));
    let (sum_qx, sum_q2) = sums(&inverse);
    let mut scales: Lanes = each!(k => if sum_q2[k] > 0.0 { sum_qx[k] / sum_q2[k] } else { 0.0 });
    let mut best: Lanes = each!(k => scales[k] * sum_qx[k]);
    for number in -NTRY..=NTRY {
        let inverse: Lanes = each!(k => (number as f32 + KVALUES_IQ4NL[0]) / extreme[k]);
        let (sum_qx, sum_q2) = sums(&inverse);
        for k in 0..LANES {
            let is_better = sum_q2[k] > 0.0 && sum_qx[k] * sum_qx[k] > best[k] * sum_q2[k];
            let scale = sum_qx[k] / sum_q2[k];
            scales[k] = if is_better { scale } else { scales[k] };
            best[k] = if is_better { scale * sum_qx[k] } else { best[k] };
        }
    }
    each!(k => if size[k] < GROUP_MAX_EPS { 0.0 } else { scales[k] })
}

/// The weights of the values: `importance · sqrt(variance + value²)`, the variance taken over `SHARED` values, or
/// without importance the squares.
#[inline(always)]
fn weights<S: Simd, const SHARED: usize>(
    simd: S,
    values: &[f32],
    places: &[Lanes; BLOCK],
    importance: Option<&[f32]>,
) -> [Lanes; BLOCK] {
    let Some(importance) = importance else {
        let mut squares = *places;
        squares.iter_mut().flatten().for_each(|value| *value *= *value);
        return squares;
    };
    let mut variance = [0.0; LANES];
    let lanes = SHARED / BLOCK;
    for (index, values) in values.as_chunks::<SHARED>().0.iter().enumerate() {
        variance[index * lanes..(index + 1) * lanes].fill(sum_of_squares(values) * (2.0 / SHARED as f32));
    }
    importance_weights(places, &to_lanes(simd, importance), &variance)
}

/// Packs codes into sixteen bytes: the first half of the values in the low nibbles.
#[inline(always)]
fn pack(values: &[f32; BLOCK], inverse: f32, out: &mut [u8]) {
    let mut codes = [0; BLOCK];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = best_index(inverse * value);
    }
    for place in 0..BLOCK / 2 {
        out[place] = codes[place] | codes[place + BLOCK / 2] << 4;
    }
}

impl EncodeBlocks for Iq4Nl {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let strips = values.chunks(LANES * BLOCK).zip(out.chunks_mut(LANES * 18)).enumerate();
        for (index, (values, out)) in strips {
            let places = to_lanes::<S, BLOCK>(simd, values);
            let importance = part(importance, index * LANES * BLOCK, values.len());
            let scales = find_scales(&places, &weights::<S, BLOCK>(simd, values, &places, importance));
            let blocks = values.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<18>().0);
            for ((values, out), scale) in blocks.zip(scales) {
                out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
                pack(values, reciprocal(scale), &mut out[2..]);
            }
        }
    }
}

impl EncodeBlocks for Iq4Xs {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let strips = values.chunks(2 * QK_K).zip(out.chunks_mut(2 * 136)).enumerate();
        for (index, (values, out)) in strips {
            let places = to_lanes::<S, BLOCK>(simd, values);
            let importance = part(importance, index * 2 * QK_K, values.len());
            let scales = find_scales(&places, &weights::<S, QK_K>(simd, values, &places, importance));
            let blocks = values.as_chunks::<QK_K>().0.iter().zip(out.as_chunks_mut::<136>().0);
            for ((values, out), scales) in blocks.zip(scales.as_chunks::<8>().0) {
                iq4_xs(values, scales, out);
            }
        }
    }
}

#[inline(always)]
fn iq4_xs(values: &[f32; 256], scales: &[f32; 8], out: &mut [u8; 136]) {
    let scale = -max_by_magnitude(scales).0 / 32.0;
    let to_code = reciprocal(scale);
    let (mut high, mut low) = (0u16, [0u8; 4]);
    for (place, (values, of_block)) in values.as_chunks::<BLOCK>().0.iter().zip(scales).enumerate() {
        let level = nearest_int(to_code * of_block).clamp(-32, 31);
        pack(values, reciprocal(scale * level as f32), &mut out[8 + 16 * place..]);
        let code = (level + 32) as u8;
        low[place / 2] |= (code & 15) << (place % 2 * 4);
        high |= u16::from(code >> 4) << (2 * place);
    }
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&high.to_le_bytes());
    out[4..8].copy_from_slice(&low);
}
