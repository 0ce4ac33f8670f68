//! Sixteen values that are not evenly spaced, and a scale: IQ4_NL, and IQ4_XS with scales of scales. Both follow
//! `quantize_row_iq4_nl_impl` of ggml.

use super::lanes::{LANES, Lanes, SMALLEST, SUPER, each, extreme, inverse, nearest, side_by_side, squares, weighted};
use super::search::extremes;
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Iq4Nl, Iq4Xs};

/// Values of a sub-block.
const BLOCK: usize = 32;

/// The value of each code (`kvalues_iq4nl`).
const VALUES: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// Half way from each value to the next; whoever is there belongs to the next. All are far enough from zero that the
/// differences to both values are exact there.
const LIMITS: [f32; 15] = {
    let mut limits = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        limits[i] = (VALUES[i] + VALUES[i + 1]) / 2.0;
        i += 1;
    }
    limits
};

/// The code nearest to a number; NaN has the last.
#[inline(always)]
fn code(number: f32) -> u8 {
    let mut code = 15;
    for limit in LIMITS {
        code -= u8::from(number < limit);
    }
    code
}

/// The value nearest to a number.
#[inline(always)]
fn value(number: f32) -> f32 {
    let mut value = VALUES[15];
    for i in 0..15 {
        value -= if number < LIMITS[i] { VALUES[i + 1] - VALUES[i] } else { 0.0 };
    }
    value
}

/// Finds the scales of sub-blocks: steps of the largest value, each refined by least squares.
#[inline(always)]
fn scales(values: &[Lanes; BLOCK], weights: &[Lanes; BLOCK]) -> Lanes {
    const TRIES: i32 = 7;
    let (extreme, size) = extremes(values);
    let sums = |inverse: &Lanes| {
        let (mut sum_qx, mut sum_q2): (Lanes, Lanes) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..BLOCK {
            for k in 0..LANES {
                let (x, w) = (values[i][k], weights[i][k]);
                let q = value(inverse[k] * x);
                sum_qx[k] += w * q * x;
                sum_q2[k] += w * q * q;
            }
        }
        (sum_qx, sum_q2)
    };
    let inverse: Lanes = each!(k => 1.0 / (-extreme[k] / VALUES[0]));
    let (sum_qx, sum_q2) = sums(&inverse);
    let mut scales: Lanes = each!(k => if sum_q2[k] > 0.0 { sum_qx[k] / sum_q2[k] } else { 0.0 });
    let mut best: Lanes = each!(k => scales[k] * sum_qx[k]);
    for number in -TRIES..=TRIES {
        let inverse: Lanes = each!(k => (number as f32 + VALUES[0]) / extreme[k]);
        let (sum_qx, sum_q2) = sums(&inverse);
        for k in 0..LANES {
            let is_better = sum_q2[k] > 0.0 && sum_qx[k] * sum_qx[k] > best[k] * sum_q2[k];
            let scale = sum_qx[k] / sum_q2[k];
            scales[k] = if is_better { scale } else { scales[k] };
            best[k] = if is_better { scale * sum_qx[k] } else { best[k] };
        }
    }
    each!(k => if size[k] < SMALLEST { 0.0 } else { scales[k] })
}

/// Weights by importance and size, or by size alone; `SHARED` values share their variance.
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
        variance[index * lanes..(index + 1) * lanes].fill(squares(values) * (2.0 / SHARED as f32));
    }
    weighted(places, &side_by_side(simd, importance), &variance)
}

/// Sixteen bytes of codes: the first half low.
#[inline(always)]
fn pack(values: &[f32; BLOCK], inverse: f32, out: &mut [u8]) {
    let mut codes = [0; BLOCK];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = self::code(inverse * value);
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
            let places = side_by_side::<S, BLOCK>(simd, values);
            let importance = part(importance, index * LANES * BLOCK, values.len());
            let scales = scales(&places, &weights::<S, BLOCK>(simd, values, &places, importance));
            let blocks = values.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<18>().0);
            for ((values, out), scale) in blocks.zip(scales) {
                out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
                pack(values, inverse(scale), &mut out[2..]);
            }
        }
    }
}

impl EncodeBlocks for Iq4Xs {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let strips = values.chunks(2 * SUPER).zip(out.chunks_mut(2 * 136)).enumerate();
        for (index, (values, out)) in strips {
            let places = side_by_side::<S, BLOCK>(simd, values);
            let importance = part(importance, index * 2 * SUPER, values.len());
            let scales = scales(&places, &weights::<S, SUPER>(simd, values, &places, importance));
            let blocks = values.as_chunks::<SUPER>().0.iter().zip(out.as_chunks_mut::<136>().0);
            for ((values, out), scales) in blocks.zip(scales.as_chunks::<8>().0) {
                iq4_xs(values, scales, out);
            }
        }
    }
}

#[inline(always)]
fn iq4_xs(values: &[f32; 256], scales: &[f32; 8], out: &mut [u8; 136]) {
    let scale = -extreme(scales).0 / 32.0;
    let to_code = inverse(scale);
    let (mut high, mut low) = (0u16, [0u8; 4]);
    for (place, (values, of_block)) in values.as_chunks::<BLOCK>().0.iter().zip(scales).enumerate() {
        let level = nearest(to_code * of_block).clamp(-32, 31);
        pack(values, inverse(scale * level as f32), &mut out[8 + 16 * place..]);
        let code = (level + 32) as u8;
        low[place / 2] |= (code & 15) << (place % 2 * 4);
        high |= u16::from(code >> 4) << (2 * place);
    }
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&high.to_le_bytes());
    out[4..8].copy_from_slice(&low);
}
