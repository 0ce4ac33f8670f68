//! The encoders of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0 and Q2_0: blocks with a scale, or a scale and a minimum.
//!
//! Without an importance matrix they follow `quantize_row_*_ref` of ggml; with one, Q4_0 and Q5_0 follow
//! `quantize_row_*_impl` with `make_qx_quants`, Q4_1 and Q5_1 with `make_qkx3_quants`.

use super::lanes::{
    LANES, Lanes, amax, amax_without_nan, block_max, importance_weights, min_max, reciprocal, sum_of_squares, to_lanes,
};
use super::search::{QKX3_STEPS, make_qkx_quants, make_qx_quants};
use super::{EncodeBlocks, part};
use crate::base::GROUP;
use crate::base::float::{away, f16};
use crate::base::simd::Simd;
use crate::decode::ggml::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};

/// Values of a block.
const BLOCK: usize = 32;

/// Packs the low four bits of the codes: the first half of the values in the low nibbles.
#[inline(always)]
fn pack_nibbles(codes: &[u8; BLOCK], out: &mut [u8]) {
    for place in 0..BLOCK / 2 {
        out[place] = codes[place] & 15 | (codes[place + BLOCK / 2] & 15) << 4;
    }
}

/// Packs the fifth bits of the codes.
#[inline(always)]
fn pack_fifth_bits<S: Simd>(simd: S, codes: &[u8; BLOCK]) -> [u8; 4] {
    simd.equal(&map!(code in codes => i32::from(code) & 16), 16).to_le_bytes()
}

/// The scales, minima and codes of sixteen blocks.
struct SearchedBlocks {
    scales: Lanes,
    minima: Lanes,
    codes: [[u8; BLOCK]; LANES],
}

/// Searches the scales of sixteen blocks at a time, weighted by importance.
#[inline(always)]
fn encode_with_importance<S: Simd>(
    simd: S,
    row: &[f32],
    importance: &[f32],
    levels: CodeRange,
    mut put: impl FnMut(usize, &SearchedBlocks),
) {
    let variance = sum_of_squares(row) / row.len() as f32;
    for (index, values) in row.chunks(LANES * BLOCK).enumerate() {
        let places = to_lanes::<S, BLOCK>(simd, values);
        let importance = part(Some(importance), index * LANES * BLOCK, values.len()).unwrap_or_default();
        let weights = importance_weights(&places, &to_lanes(simd, importance), &[variance; LANES]);
        let mut found = SearchedBlocks { scales: [0.0; LANES], minima: [0.0; LANES], codes: [[0; BLOCK]; LANES] };
        let blocks = values.as_chunks::<BLOCK>().0.iter().zip(&mut found.codes).enumerate();
        match levels {
            CodeRange::Signed(half) => {
                let signed = make_qx_quants(&places, &weights, half);
                found.scales = signed.scales;
                for (lane, (values, codes)) in blocks {
                    codes.iter_mut().zip(values).for_each(|(code, value)| *code = signed.code(lane, *value));
                }
            }
            CodeRange::Unsigned(largest) => {
                let above = make_qkx_quants(&places, &weights, largest, QKX3_STEPS);
                (found.scales, found.minima) = (above.scales, above.mins);
                for (lane, (values, codes)) in blocks {
                    codes.iter_mut().zip(values).for_each(|(code, value)| *code = above.code(lane, *value));
                }
            }
        }
        put(index * LANES, &found);
    }
}

/// The range of the codes.
#[derive(Clone, Copy)]
enum CodeRange {
    /// `-n` to `n - 1`.
    Signed(i32),
    /// 0 to `n`.
    Unsigned(i32),
}

/// `blocks!(Type, bytes, reference, codes, pack)`: a type encoded by the largest value of a block, or by a search if
/// there is an importance.
macro_rules! blocks {
    ($type:ident, $bytes:literal, $reference:ident, $levels:expr, $pack:ident) => {
        impl EncodeBlocks for $type {
            #[inline(always)]
            fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
                let blocks = out.as_chunks_mut::<$bytes>().0;
                match importance {
                    None => {
                        for (out, values) in blocks.iter_mut().zip(values.as_chunks::<BLOCK>().0) {
                            let (scale, minimum, codes) = $reference(simd, values);
                            $pack(simd, scale, minimum, &codes, out);
                        }
                    }
                    Some(importance) => encode_with_importance(simd, values, importance, $levels, |first, found| {
                        for (lane, out) in blocks.iter_mut().skip(first).take(LANES).enumerate() {
                            $pack(simd, found.scales[lane], -found.minima[lane], &found.codes[lane], out);
                        }
                    }),
                }
            }
        }
    };
}

blocks!(Q4_0, 18, q4_0_ref, CodeRange::Signed(8), pack_q4_0);
blocks!(Q4_1, 20, q4_1_ref, CodeRange::Unsigned(15), pack_q4_1);
blocks!(Q5_0, 22, q5_0_ref, CodeRange::Signed(16), pack_q5_0);
blocks!(Q5_1, 24, q5_1_ref, CodeRange::Unsigned(31), pack_q5_1);

/// Signed codes; the value of the largest magnitude gets the lowest code.
#[inline(always)]
fn signed_ref<S: Simd>(simd: S, values: &[f32; BLOCK], half: i8, largest: u8) -> (f32, f32, [u8; BLOCK]) {
    let scale = block_max(simd, values) / -f32::from(half);
    let inverse = reciprocal(scale);
    let steps = map!(value in values => value * inverse + (f32::from(half) + 0.5));
    let codes = map!(step in simd.truncate(&steps) => i32::from(step as i8).min(largest.into()) as u8);
    (scale, 0.0, codes)
}

/// Codes from the smallest value to the largest, before truncation to integers.
#[inline(always)]
fn unsigned_ref<S: Simd>(simd: S, values: &[f32; BLOCK], largest: u8) -> (f32, f32, [f32; BLOCK]) {
    let (low, high) = min_max(simd, values);
    let scale = (high - low) / f32::from(largest);
    let inverse = reciprocal(scale);
    (scale, low, map!(value in values => (value - low) * inverse + 0.5))
}

#[inline(always)]
fn q4_0_ref<S: Simd>(simd: S, values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    signed_ref(simd, values, 8, 15)
}

#[inline(always)]
fn q5_0_ref<S: Simd>(simd: S, values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    signed_ref(simd, values, 16, 31)
}

#[inline(always)]
fn q4_1_ref<S: Simd>(simd: S, values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    let (scale, low, steps) = unsigned_ref(simd, values, 15);
    (scale, low, map!(step in simd.truncate(&steps) => i32::from(step as i8).min(15) as u8))
}

#[inline(always)]
fn q5_1_ref<S: Simd>(simd: S, values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    let (scale, low, steps) = unsigned_ref(simd, values, 31);
    (scale, low, map!(step in simd.truncate(&steps) => step as u8))
}

#[inline(always)]
fn pack_q4_0<S: Simd>(_simd: S, scale: f32, _minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 18]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    for place in 0..BLOCK / 2 {
        out[2 + place] = codes[place] | codes[place + BLOCK / 2] << 4;
    }
}

#[inline(always)]
fn pack_q4_1<S: Simd>(_simd: S, scale: f32, minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 20]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&f16::encode(minimum).to_le_bytes());
    for place in 0..BLOCK / 2 {
        out[4 + place] = codes[place] | codes[place + BLOCK / 2] << 4;
    }
}

#[inline(always)]
fn pack_q5_0<S: Simd>(simd: S, scale: f32, _minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 22]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..6].copy_from_slice(&pack_fifth_bits(simd, codes));
    pack_nibbles(codes, &mut out[6..]);
}

#[inline(always)]
fn pack_q5_1<S: Simd>(simd: S, scale: f32, minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 24]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&f16::encode(minimum).to_le_bytes());
    out[4..8].copy_from_slice(&pack_fifth_bits(simd, codes));
    pack_nibbles(codes, &mut out[8..]);
}

impl EncodeBlocks for Q8_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<34>().0) {
            let scale = amax(simd, values) / 127.0;
            let inverse = reciprocal(scale);
            out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
            let codes = simd.truncate(&map!(value in values => away::to_truncate(value * inverse)));
            out[2..].copy_from_slice(&map!(code in codes => code as u8));
        }
    }
}

impl EncodeBlocks for Q1_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<128>().0.iter().zip(out.as_chunks_mut::<18>().0) {
            let sum = values.iter().fold(0.0, |sum: f32, value| sum + value.abs());
            out[..2].copy_from_slice(&f16::encode(sum / 128.0).to_le_bytes());
            for (out, values) in out[2..].iter_mut().zip(values.as_chunks::<8>().0) {
                *out = 0;
                for (bit, value) in values.iter().enumerate() {
                    *out |= u8::from(*value >= 0.0) << bit;
                }
            }
        }
    }
}

impl EncodeBlocks for Q2_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<18>().0) {
            let scale = amax_without_nan(simd, values);
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
            for (out, values) in out[2..].as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<GROUP>().0) {
                let steps = simd.truncate(&map!(value in values => away::to_truncate(value * inverse)));
                let mut codes = 0u64;
                for (place, step) in steps.into_iter().enumerate() {
                    codes |= (step.wrapping_add(1).clamp(0, 3) as u64) << (2 * place);
                }
                *out = codes.to_le_bytes();
            }
        }
    }
}
