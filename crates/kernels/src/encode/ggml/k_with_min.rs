//! The encoders of Q2_K, Q4_K and Q5_K, whose sub-blocks have a scale and a minimum.
//!
//! They follow `quantize_row_q*_K_ref` of ggml (`make_qkx2_quants`) or, with an importance matrix,
//! `quantize_row_q*_K_impl` (`make_qkx3_quants`, then `make_qp_quants` for the scales and minima).

use super::lanes::{LANES, Lanes, QK_K, importance_weights, nearest_int, sum_of_squares, to_lanes};
use super::search::{CandidateSteps, QKX3_STEPS, QkxQuants, make_qkx_quants, make_qp_quants};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q2K, Q4K, Q5K};

/// The sum of each lane, in order.
#[inline(always)]
fn sums<const N: usize>(places: &[Lanes; N]) -> Lanes {
    let mut sums = [0.0; LANES];
    for place in places {
        for k in 0..LANES {
            sums[k] += place[k];
        }
    }
    sums
}

super_blocks!(Q2K, 84, q2_k);

#[inline(always)]
fn q2_k<S: Simd>(simd: S, values: &[f32; QK_K], importance: Option<&[f32]>, out: &mut [u8; 84]) {
    const STEPS: CandidateSteps = CandidateSteps { rmin: -0.5, rdelta: 0.1, nstep: 15, use_mad: true };
    const TOP: f32 = 15.0;
    let places = to_lanes::<S, 16>(simd, values);
    let (found, scale, minimum, codes);
    match importance {
        None => {
            let mut weights = places;
            weights.iter_mut().flatten().for_each(|weight| *weight = weight.abs());
            found = make_qkx_quants(&places, &weights, 3, STEPS);
            let (of_scales, max_scale) = quantise_by_max(&found.scales, TOP);
            let (of_minima, max_min) = quantise_by_max(&found.mins, TOP);
            (scale, minimum) = (max_scale / TOP, max_min / TOP);
            codes = pack_nibbles(&of_scales, &of_minima);
        }
        Some(importance) => {
            let variance = sum_of_squares(values) / QK_K as f32;
            let weights = importance_weights(&places, &to_lanes(simd, importance), &[variance; LANES]);
            found = make_qkx_quants(&places, &weights, 3, QKX3_STEPS);
            let sums = sums(&weights);
            let (of_scales, of_minima);
            (scale, of_scales) = make_qp_quants(&found.scales, &sums, 15);
            (minimum, of_minima) = make_qp_quants(&found.mins, &sums, 15);
            codes = pack_nibbles(&of_scales, &of_minima);
        }
    }
    let (scale, minimum) = (f16::encode(scale), f16::encode(minimum));
    out[..16].copy_from_slice(&codes);
    out[80..82].copy_from_slice(&scale.to_le_bytes());
    out[82..].copy_from_slice(&minimum.to_le_bytes());
    let (scale, minimum) = (f16::decode(scale), f16::decode(minimum));
    let mut levels = [0u8; QK_K];
    for (lane, (levels, values)) in
        levels.as_chunks_mut::<16>().0.iter_mut().zip(values.as_chunks::<16>().0).enumerate()
    {
        let step = scale * f32::from(codes[lane] & 15);
        let below = minimum * f32::from(codes[lane] >> 4);
        requantise(levels, values, step, below, 3, |value| found.code(lane, value));
    }
    for half in 0..2 {
        for place in 0..32 {
            let level = |quarter: usize| levels[128 * half + 32 * quarter + place] << (2 * quarter);
            out[16 + 32 * half + place] = level(0) | level(1) | level(2) | level(3);
        }
    }
}

/// Quantises scales or minima by the largest of them; all codes are 0 if none is positive.
#[inline(always)]
fn quantise_by_max(values: &Lanes, top: f32) -> ([u8; LANES], f32) {
    let highest = values.iter().fold(0.0, |highest, &value| if value > highest { value } else { highest });
    let mut codes = [0; LANES];
    if highest > 0.0 {
        let inverse = top / highest;
        for (code, value) in codes.iter_mut().zip(values) {
            *code = nearest_int(inverse * value) as u8;
        }
    }
    (codes, highest)
}

/// Packs two four-bit codes into each byte.
#[inline(always)]
fn pack_nibbles(low: &[u8; LANES], high: &[u8; LANES]) -> [u8; LANES] {
    let mut bytes = [0; LANES];
    for (pair, (low, high)) in bytes.iter_mut().zip(low.iter().zip(high)) {
        *pair = low | high << 4;
    }
    bytes
}

/// Quantises a sub-block with its final scale and minimum; if that scale is zero, the codes stay those of the search.
#[inline(always)]
fn requantise<const N: usize>(
    levels: &mut [u8; N],
    values: &[f32; N],
    step: f32,
    below: f32,
    largest: i32,
    found: impl Fn(f32) -> u8,
) {
    for (level, &value) in levels.iter_mut().zip(values) {
        *level = if step == 0.0 { found(value) } else { nearest_int((value + below) / step).min(largest).max(0) as u8 };
    }
}

/// Packs eight six-bit scales and minima into twelve bytes.
#[inline(always)]
fn pack_scales_mins(scales: &[u8; 8], minima: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        (packed[j], packed[j + 4]) = (scales[j], minima[j]);
    }
    for j in 4..8 {
        packed[j + 4] = (scales[j] & 15) | (minima[j] & 15) << 4;
        packed[j - 4] |= (scales[j] >> 4) << 6;
        packed[j] |= (minima[j] >> 4) << 6;
    }
    packed
}

/// Unpacks one scale and minimum (`get_scale_min_k4` of ggml).
#[inline(always)]
fn get_scale_min_k4(packed: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | (packed[j - 4] >> 6) << 4, packed[j + 4] >> 4 | (packed[j] >> 6) << 4)
    }
}

/// The fields of a super-block of Q4_K or Q5_K.
struct ScaleMinBlock {
    scale: u16,
    minimum: u16,
    scales: [u8; 12],
    levels: [u8; QK_K],
}

/// Encodes two super-blocks at a time, which have sixteen sub-blocks of 32 values, and passes each result to `put`.
#[inline(always)]
fn encode_pairs<S: Simd>(
    simd: S,
    values: &[f32],
    importance: Option<&[f32]>,
    largest: i32,
    steps: CandidateSteps,
    mut put: impl FnMut(usize, &ScaleMinBlock),
) {
    for (index, values) in values.chunks(2 * QK_K).enumerate() {
        let places = to_lanes::<S, 32>(simd, values);
        let importance = part(importance, 2 * index * QK_K, values.len());
        let weights = match importance {
            None => {
                let mut variance = [0.0; LANES];
                for place in &places {
                    for k in 0..LANES {
                        variance[k] += place[k] * place[k];
                    }
                }
                let mut weights = [[0.0; LANES]; 32];
                for i in 0..32 {
                    for k in 0..LANES {
                        weights[i][k] = (variance[k] / 32.0).sqrt() + places[i][k].abs();
                    }
                }
                weights
            }
            Some(importance) => {
                let mut variance = [0.0; LANES];
                for (half, values) in values.chunks_exact(QK_K).enumerate() {
                    variance[8 * half..8 * half + 8].fill(2.0 * sum_of_squares(values) / QK_K as f32);
                }
                importance_weights(&places, &to_lanes(simd, importance), &variance)
            }
        };
        let steps = if importance.is_some() { QKX3_STEPS } else { steps };
        let found = make_qkx_quants(&places, &weights, largest, steps);
        let sums = sums(&weights);
        for (half, values) in values.as_chunks::<QK_K>().0.iter().enumerate() {
            put(2 * index + half, &encode_super_block(values, &found, importance.map(|_| &sums), half, largest));
        }
    }
}

#[inline(always)]
fn encode_super_block(
    values: &[f32; QK_K],
    found: &QkxQuants,
    sums: Option<&Lanes>,
    half: usize,
    largest: i32,
) -> ScaleMinBlock {
    const TOP: f32 = 63.0;
    let of_half = |lanes: &Lanes| -> [f32; 8] { std::array::from_fn(|lane| lanes[8 * half + lane]) };
    let (scales, minima) = (of_half(&found.scales), of_half(&found.mins));
    let (scale, minimum, packed) = match sums {
        None => {
            let quantise_by_max = |values: &[f32; 8]| -> (f32, [u8; 8]) {
                let highest = values.iter().fold(0.0, |highest, &value| if value > highest { value } else { highest });
                let inverse = if highest > 0.0 { TOP / highest } else { 0.0 };
                let mut codes = [0; 8];
                for (code, value) in codes.iter_mut().zip(values) {
                    *code = (nearest_int(inverse * value) as u8).min(63);
                }
                (highest / TOP, codes)
            };
            let ((scale, scales), (minimum, minima)) = (quantise_by_max(&scales), quantise_by_max(&minima));
            (scale, minimum, pack_scales_mins(&scales, &minima))
        }
        Some(sums) => {
            let sums = of_half(sums);
            let ((scale, scales), (minimum, minima)) =
                (make_qp_quants(&scales, &sums, 63), make_qp_quants(&minima, &sums, 63));
            (scale, minimum, pack_scales_mins(&scales, &minima))
        }
    };
    let (scale, minimum) = (f16::encode(scale), f16::encode(minimum));
    let mut levels = [0; QK_K];
    for (lane, (levels, values)) in
        levels.as_chunks_mut::<32>().0.iter_mut().zip(values.as_chunks::<32>().0).enumerate()
    {
        let (of_scale, of_minimum) = get_scale_min_k4(&packed, lane);
        let step = f16::decode(scale) * f32::from(of_scale);
        let below = f16::decode(minimum) * f32::from(of_minimum);
        requantise(levels, values, step, below, largest, |value| found.code(8 * half + lane, value));
    }
    ScaleMinBlock { scale, minimum, scales: packed, levels }
}

impl ScaleMinBlock {
    /// Writes the first sixteen bytes of a block.
    #[inline(always)]
    fn write_scales(&self, out: &mut [u8]) {
        out[..2].copy_from_slice(&self.scale.to_le_bytes());
        out[2..4].copy_from_slice(&self.minimum.to_le_bytes());
        out[4..16].copy_from_slice(&self.scales);
    }
}

impl EncodeBlocks for Q4K {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        const STEPS: CandidateSteps = CandidateSteps { rmin: -1.0, rdelta: 0.1, nstep: 20, use_mad: false };
        let blocks = out.as_chunks_mut::<144>().0;
        encode_pairs(simd, values, importance, 15, STEPS, |index, block| {
            let Some(out) = blocks.get_mut(index) else { return };
            block.write_scales(out);
            for (out, levels) in out[16..].as_chunks_mut::<32>().0.iter_mut().zip(block.levels.as_chunks::<64>().0) {
                for place in 0..32 {
                    out[place] = levels[place] | levels[place + 32] << 4;
                }
            }
        });
    }
}

impl EncodeBlocks for Q5K {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        const STEPS: CandidateSteps = CandidateSteps { rmin: -0.5, rdelta: 0.1, nstep: 15, use_mad: false };
        let blocks = out.as_chunks_mut::<176>().0;
        encode_pairs(simd, values, importance, 31, STEPS, |index, block| {
            let Some(out) = blocks.get_mut(index) else { return };
            block.write_scales(out);
            let mut high = [0; 32];
            for (quarter, levels) in block.levels.as_chunks::<64>().0.iter().enumerate() {
                for place in 0..32 {
                    let (low, next) = (levels[place], levels[place + 32]);
                    high[place] |= (low >> 4) << (2 * quarter) | (next >> 4) << (2 * quarter + 1);
                    out[48 + 32 * quarter + place] = low & 15 | (next & 15) << 4;
                }
            }
            out[16..48].copy_from_slice(&high);
        });
    }
}
