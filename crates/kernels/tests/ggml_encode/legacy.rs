//! Twins of the types with 32 values under one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::search::{IMPORTANT, above, around, energy, extreme, to_half, weigh};
use super::simple::to_int;

/// Scale, minimum and codes of each block of a row, which `plain` makes without importance and `searched` with it.
fn blocks(
    values: &[f32],
    importance: Option<&[f32]>,
    plain: impl Fn(&[f32]) -> (f32, f32, Vec<u8>),
    searched: impl Fn(&[f32], &[f32]) -> (f32, f32, Vec<u8>),
    pack: impl Fn(u16, u16, &[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let variance = energy(values) / values.len() as f32;
    let mut bytes = Vec::new();
    for (index, block) in values.chunks(32).enumerate() {
        let (scale, minimum, codes) = match importance {
            None => plain(block),
            Some(importance) => searched(block, &weigh(block, &importance[32 * index..][..32], variance)),
        };
        bytes.extend(pack(to_half(scale).0, to_half(minimum).0, &codes));
    }
    bytes
}

/// The largest value gets the lowest code.
fn by_extreme(block: &[f32], half: f32) -> (f32, f32, Vec<u8>) {
    let scale = extreme(block).0 / -half;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let highest = (2.0 * half) as i32 - 1;
    let code = |value: &f32| i32::from(to_int(value * inverse + (half + 0.5)) as i8).min(highest) as u8;
    (scale, 0.0, block.iter().map(code).collect())
}

/// From the lowest value to the highest, which gets `top`.
fn by_range(block: &[f32], top: f32, code: impl Fn(i32) -> u8) -> (f32, f32, Vec<u8>) {
    let low = block.iter().fold(f32::MAX, |low, &value| if value < low { value } else { low });
    let high = block.iter().fold(-f32::MAX, |high, &value| if value > high { value } else { high });
    let scale = (high - low) / top;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (scale, low, block.iter().map(|value| code(to_int((value - low) * inverse + 0.5))).collect())
}

/// Two codes in a byte: one of the first half of the block below one of the second.
fn nibbles(codes: &[u8]) -> Vec<u8> {
    (0..16).map(|place| codes[place] & 15 | (codes[place + 16] & 15) << 4).collect()
}

/// The fifth bits of all codes.
fn fifths(codes: &[u8]) -> [u8; 4] {
    codes.iter().enumerate().fold(0, |bits, (place, code)| bits | u32::from(code >> 4 & 1) << place).to_le_bytes()
}

pub fn q4_0(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let searched = |block: &[f32], weights: &[f32]| {
        let (scale, codes) = around(block, weights, 8);
        (scale, 0.0, codes)
    };
    blocks(
        values,
        importance,
        |block| by_extreme(block, 8.0),
        searched,
        |scale, _, codes| {
            let packed: Vec<u8> = (0..16).map(|place| codes[place] | codes[place + 16] << 4).collect();
            [&scale.to_le_bytes()[..], &packed].concat()
        },
    )
}

pub fn q5_0(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let searched = |block: &[f32], weights: &[f32]| {
        let (scale, codes) = around(block, weights, 16);
        (scale, 0.0, codes)
    };
    blocks(
        values,
        importance,
        |block| by_extreme(block, 16.0),
        searched,
        |scale, _, codes| [&scale.to_le_bytes()[..], &fifths(codes), &nibbles(codes)].concat(),
    )
}

/// A search above a minimum, which these types store as it is, not how far it is below zero.
fn searched_above(top: i32) -> impl Fn(&[f32], &[f32]) -> (f32, f32, Vec<u8>) {
    move |block, weights| {
        let (scale, below, codes) = above(block, weights, top, IMPORTANT);
        (scale, -below, codes)
    }
}

pub fn q4_1(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let plain = |block: &[f32]| by_range(block, 15.0, |code| i32::from(code as i8).min(15) as u8);
    blocks(values, importance, plain, searched_above(15), |scale, minimum, codes| {
        let packed: Vec<u8> = (0..16).map(|place| codes[place] | codes[place + 16] << 4).collect();
        [&scale.to_le_bytes()[..], &minimum.to_le_bytes(), &packed].concat()
    })
}

pub fn q5_1(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let plain = |block: &[f32]| by_range(block, 31.0, |code| code as u8);
    blocks(values, importance, plain, searched_above(31), |scale, minimum, codes| {
        [&scale.to_le_bytes()[..], &minimum.to_le_bytes(), &fifths(codes), &nibbles(codes)].concat()
    })
}

/// Importance changes nothing here.
pub fn q8_0(values: &[f32], _importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(32) {
        let scale = extreme(block).1 / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        bytes.extend(to_half(scale).0.to_le_bytes());
        bytes.extend(block.iter().map(|value| to_int((value * inverse).round()) as u8));
    }
    bytes
}
