//! Blocks with one scale, or a scale and a minimum: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0, Q2_0.

use super::lanes::{LANES, Lanes, extreme, inverse, larger, side_by_side, squares, truncated, weighted};
use super::search::{WEIGHTED, signed, with_minimum};
use super::{EncodeBlocks, part};
use crate::base::float::f16;
use crate::base::simd::Simd;
use crate::decode::ggml::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};

/// Values of a block.
const BLOCK: usize = 32;

/// The largest size.
#[inline(always)]
fn size(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |size, value| larger(size, value.abs()))
}

/// The least and the largest value.
#[inline(always)]
fn bounds(values: &[f32; BLOCK]) -> (f32, f32) {
    let (mut low, mut high) = (f32::MAX, -f32::MAX);
    for &value in values {
        low = if value < low { value } else { low };
        high = if value > high { value } else { high };
    }
    (low, high)
}

/// Sixteen bytes of four-bit codes: the first half low.
#[inline(always)]
fn nibbles(codes: &[u8; BLOCK], out: &mut [u8]) {
    for place in 0..BLOCK / 2 {
        out[place] = codes[place] & 15 | (codes[place + BLOCK / 2] & 15) << 4;
    }
}

/// The fifth bits of the codes.
#[inline(always)]
fn fifth_bits(codes: &[u8; BLOCK]) -> [u8; 4] {
    let mut bits = 0u32;
    for (place, code) in codes.iter().enumerate() {
        bits |= u32::from(code >> 4 & 1) << place;
    }
    bits.to_le_bytes()
}

/// What is found for blocks whose values have an importance: scales, minima, codes.
struct Found {
    scales: Lanes,
    minima: Lanes,
    codes: [[u8; BLOCK]; LANES],
}

/// Searches sixteen blocks at a time, with codes around zero (`half`) or from a minimum on.
#[inline(always)]
fn searched(row: &[f32], importance: &[f32], levels: Levels, mut put: impl FnMut(usize, &Found)) {
    let variance = squares(row) / row.len() as f32;
    for (index, values) in row.chunks(LANES * BLOCK).enumerate() {
        let places = side_by_side::<BLOCK>(values);
        let importance = part(Some(importance), index * LANES * BLOCK, values.len()).unwrap_or_default();
        let weights = weighted(&places, &side_by_side(importance), &[variance; LANES]);
        let mut found = Found { scales: [0.0; LANES], minima: [0.0; LANES], codes: [[0; BLOCK]; LANES] };
        let blocks = values.as_chunks::<BLOCK>().0.iter().zip(&mut found.codes).enumerate();
        match levels {
            Levels::Around(half) => {
                let signed = signed(&places, &weights, half);
                found.scales = signed.scales;
                for (lane, (values, codes)) in blocks {
                    codes.iter_mut().zip(values).for_each(|(code, value)| *code = signed.code(lane, *value));
                }
            }
            Levels::UpTo(largest) => {
                let above = with_minimum(&places, &weights, largest, WEIGHTED);
                (found.scales, found.minima) = (above.scales, above.minima);
                for (lane, (values, codes)) in blocks {
                    codes.iter_mut().zip(values).for_each(|(code, value)| *code = above.code(lane, *value));
                }
            }
        }
        put(index * LANES, &found);
    }
}

/// The codes that are searched for.
#[derive(Clone, Copy)]
enum Levels {
    /// Around zero: this many on either side.
    Around(i32),
    /// From zero up to this.
    UpTo(i32),
}

/// `blocks!(Type, bytes, values => plain, levels, (scale, minimum, codes) => packed)`: a type whose blocks come from the largest
/// value, or from a search where there is an importance.
macro_rules! blocks {
    ($type:ident, $bytes:literal, $plain:ident, $levels:expr, $pack:ident) => {
        impl EncodeBlocks for $type {
            #[inline(always)]
            fn encode_row<S: Simd>(_simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
                let blocks = out.as_chunks_mut::<$bytes>().0;
                match importance {
                    None => {
                        for (out, values) in blocks.iter_mut().zip(values.as_chunks::<BLOCK>().0) {
                            let (scale, minimum, codes) = $plain(values);
                            $pack(scale, minimum, &codes, out);
                        }
                    }
                    Some(importance) => searched(values, importance, $levels, |first, found| {
                        for (lane, out) in blocks.iter_mut().skip(first).take(LANES).enumerate() {
                            $pack(found.scales[lane], -found.minima[lane], &found.codes[lane], out);
                        }
                    }),
                }
            }
        }
    };
}

blocks!(Q4_0, 18, plain_q4_0, Levels::Around(8), pack_q4_0);
blocks!(Q4_1, 20, plain_q4_1, Levels::UpTo(15), pack_q4_1);
blocks!(Q5_0, 22, plain_q5_0, Levels::Around(16), pack_q5_0);
blocks!(Q5_1, 24, plain_q5_1, Levels::UpTo(31), pack_q5_1);

/// Codes around zero by the largest value, which gets the lowest code.
#[inline(always)]
fn around(values: &[f32; BLOCK], half: i8, largest: u8) -> (f32, f32, [u8; BLOCK]) {
    let scale = extreme(values).0 / -f32::from(half);
    let inverse = inverse(scale);
    let mut codes = [0; BLOCK];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = i32::from(truncated(value * inverse + (f32::from(half) + 0.5)) as i8).min(largest.into()) as u8;
    }
    (scale, 0.0, codes)
}

/// Codes from the least value to the largest.
#[inline(always)]
fn between(values: &[f32; BLOCK], largest: u8) -> (f32, f32, [u8; BLOCK], [f32; BLOCK]) {
    let (low, high) = bounds(values);
    let scale = (high - low) / f32::from(largest);
    let inverse = inverse(scale);
    let mut steps = [0.0; BLOCK];
    for (step, value) in steps.iter_mut().zip(values) {
        *step = (value - low) * inverse + 0.5;
    }
    (scale, low, [0; BLOCK], steps)
}

#[inline(always)]
fn plain_q4_0(values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    around(values, 8, 15)
}

#[inline(always)]
fn plain_q5_0(values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    around(values, 16, 31)
}

#[inline(always)]
fn plain_q4_1(values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    let (scale, low, mut codes, steps) = between(values, 15);
    for (code, step) in codes.iter_mut().zip(steps) {
        *code = i32::from(truncated(step) as i8).min(15) as u8;
    }
    (scale, low, codes)
}

#[inline(always)]
fn plain_q5_1(values: &[f32; BLOCK]) -> (f32, f32, [u8; BLOCK]) {
    let (scale, low, mut codes, steps) = between(values, 31);
    for (code, step) in codes.iter_mut().zip(steps) {
        *code = truncated(step) as u8;
    }
    (scale, low, codes)
}

#[inline(always)]
fn pack_q4_0(scale: f32, _minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 18]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    for place in 0..BLOCK / 2 {
        out[2 + place] = codes[place] | codes[place + BLOCK / 2] << 4;
    }
}

#[inline(always)]
fn pack_q4_1(scale: f32, minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 20]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&f16::encode(minimum).to_le_bytes());
    for place in 0..BLOCK / 2 {
        out[4 + place] = codes[place] | codes[place + BLOCK / 2] << 4;
    }
}

#[inline(always)]
fn pack_q5_0(scale: f32, _minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 22]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..6].copy_from_slice(&fifth_bits(codes));
    nibbles(codes, &mut out[6..]);
}

#[inline(always)]
fn pack_q5_1(scale: f32, minimum: f32, codes: &[u8; BLOCK], out: &mut [u8; 24]) {
    out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
    out[2..4].copy_from_slice(&f16::encode(minimum).to_le_bytes());
    out[4..8].copy_from_slice(&fifth_bits(codes));
    nibbles(codes, &mut out[8..]);
}

impl EncodeBlocks for Q8_0 {
    #[inline(always)]
    fn encode_row<S: Simd>(_simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<34>().0) {
            let scale = size(values) / 127.0;
            let inverse = inverse(scale);
            out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
            for (out, value) in out[2..].iter_mut().zip(values) {
                *out = truncated((value * inverse).round()) as u8;
            }
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
    fn encode_row<S: Simd>(_simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<18>().0) {
            let scale = values.iter().fold(0.0, |size, value| if value.abs() > size { value.abs() } else { size });
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            out[..2].copy_from_slice(&f16::encode(scale).to_le_bytes());
            for (out, values) in out[2..].iter_mut().zip(values.as_chunks::<4>().0) {
                *out = 0;
                for (place, value) in values.iter().enumerate() {
                    let code = truncated((value * inverse).round()).wrapping_add(1).clamp(0, 3);
                    *out |= (code as u8) << (2 * place);
                }
            }
        }
    }
}
