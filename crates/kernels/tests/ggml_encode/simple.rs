//! Twins of the types that need no search and know no importance: Q1_0, Q2_0, TQ1_0, TQ2_0, MXFP4, NVFP4.

use super::search::{extreme, to_half};

/// C's conversion to `int` as x86 does it: towards zero, and the lowest of all for what does not fit.
pub fn to_int(value: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

pub fn q1_0(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(128) {
        let sum = block.iter().fold(0.0, |sum, value| sum + value.abs());
        bytes.extend(to_half(sum / 128.0).0.to_le_bytes());
        bytes.extend(block.chunks(8).map(|eight| {
            eight.iter().enumerate().fold(0, |bits, (place, value)| bits | u8::from(*value >= 0.0) << place)
        }));
    }
    bytes
}

pub fn q2_0(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(64) {
        let size = extreme(block).1;
        let inverse = if size > 0.0 { 1.0 / size } else { 0.0 };
        bytes.extend(to_half(size).0.to_le_bytes());
        let code = |value: &f32| (to_int((value * inverse).round()).wrapping_add(1)).clamp(0, 3) as u8;
        bytes.extend(
            block
                .chunks(4)
                .map(|four| four.iter().enumerate().fold(0, |bits, (place, value)| bits | code(value) << (2 * place))),
        );
    }
    bytes
}

/// The scale of 256 values, and each of them as 0, 1 or 2.
fn thirds(block: &[f32]) -> (u16, Vec<u8>) {
    let size = extreme(block).1;
    let inverse = if size == 0.0 { 0.0 } else { 1.0 / size };
    let third = |value: &f32| to_int((value * inverse).round()).wrapping_add(1) as u8;
    (to_half(size).0, block.iter().map(third).collect())
}

/// Digits of base three, the first the most significant of five, as a fraction of 256 that is rounded up.
fn fraction(thirds: impl Iterator<Item = u8>) -> u8 {
    let (number, count) =
        thirds.fold((0u8, 0), |(number, count), third| (number.wrapping_mul(3).wrapping_add(third), count + 1));
    let number = (count..5).fold(number, |number, _| number.wrapping_mul(3));
    (u32::from(number) * 256).div_ceil(243) as u8
}

pub fn tq1_0(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(256) {
        let (scale, thirds) = thirds(block);
        // How many bytes follow each other, where their values begin, and how many each has, one for each such run of values.
        for (run, start, count) in [(32, 0, 5), (16, 160, 5), (4, 240, 4)] {
            bytes.extend((0..run).map(|place| fraction((0..count).map(|n| thirds[start + place + n * run]))));
        }
        bytes.extend(scale.to_le_bytes());
    }
    bytes
}

pub fn tq2_0(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(256) {
        let (scale, thirds) = thirds(block);
        for half in thirds.chunks(128) {
            bytes.extend(
                (0..32)
                    .map(|place| (0..4).fold(0u8, |bits, n| bits.wrapping_add((half[place + 32 * n] & 3) << (2 * n)))),
            );
        }
        bytes.extend(scale.to_le_bytes());
    }
    bytes
}

/// Twice what the codes of E2M1 stand for.
const DOUBLES: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Two codes in a byte, the first that are nearest under half of a scale: one of the first half of the values below one of the
/// second.
fn nearest(values: &[f32], half_of_scale: f32) -> Vec<u8> {
    let code = |value: f32| {
        let mut best = 0;
        for code in 1..16 {
            let error = |code: usize| (DOUBLES[code] * half_of_scale - value).abs();
            best = if error(code) < error(best) { code } else { best };
        }
        best as u8
    };
    let (first, second) = values.split_at(values.len() / 2);
    first.iter().zip(second).map(|(&low, &high)| code(low) | code(high) << 4).collect()
}

pub fn mxfp4(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(32) {
        let size = extreme(block).1;
        // The logarithm is an F32, which may round up to a whole number.
        let logarithm = (f64::from(size).log2() as f32).floor();
        let exponent = if size > 0.0 { to_int(logarithm - 2.0 + 127.0) as u8 } else { 0 };
        bytes.push(exponent);
        bytes.extend(nearest(block, 2f64.powi(i32::from(exponent) - 128) as f32));
    }
    bytes
}

/// The E4M3 of a scale, halves up. From 256 on it is the largest of all.
fn e4m3(scale: f32) -> u8 {
    if scale < 1.0 / 64.0 {
        return (scale * 512.0 + 0.5).min(7.0) as u8;
    }
    let exponent = scale.log2().floor() as i32;
    let eighths = (f64::from(scale) / 2f64.powi(exponent - 3) + 0.5).floor() as i32;
    let code = (exponent + 7) * 8 + eighths - 8;
    if code < 15 * 8 { code as u8 } else { 0x7E }
}

/// What an E4M3 stands for.
fn of_e4m3(code: u8) -> f32 {
    let (exponent, eighths) = (i32::from(code >> 3), f32::from(code & 7) / 8.0);
    if exponent == 0 { eighths / 64.0 } else { (1.0 + eighths) * 2f32.powi(exponent - 7) }
}

pub fn nvfp4(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(64) {
        let scales: Vec<u8> = block.chunks(16).map(|run| e4m3(extreme(run).1 / 6.0)).collect();
        bytes.extend(&scales);
        for (run, scale) in block.chunks(16).zip(scales) {
            bytes.extend(nearest(run, of_e4m3(scale) / 2.0));
        }
    }
    bytes
}
