//! Twins of the types with sixteen uneven levels: IQ4_NL, IQ4_XS.

use super::search::{NOTHING, energy, extreme, to_half, weigh, whole};

const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn level(code: u8) -> f32 {
    f32::from(LEVELS[usize::from(code)])
}

/// The code of the nearest level, the upper of two.
fn nearest(value: f32) -> u8 {
    if value <= level(0) {
        return 0;
    }
    let above = (1..15).find(|&code| value < level(code)).unwrap_or(15);
    let is_below = value < level(15) && value - level(above - 1) < level(above) - value;
    if is_below { above - 1 } else { above }
}

/// The scale of 32 values: the best of sixteen that are tried.
fn scale_of(block: &[f32], weights: &[f32]) -> f32 {
    let (extreme, size) = extreme(block);
    if size < NOTHING {
        return 0.0;
    }
    let sums = |inverse: f32| {
        let (mut products, mut squares) = (0.0, 0.0);
        for (&value, weight) in block.iter().zip(weights) {
            let level = level(nearest(inverse * value));
            products += weight * level * value;
            squares += weight * level * level;
        }
        (products, squares)
    };
    let (products, squares) = sums(1.0 / (-extreme / level(0)));
    let mut scale = if squares > 0.0 { products / squares } else { 0.0 };
    let mut best = scale * products;
    for step in -7i8..=7 {
        let (products, squares) = sums((f32::from(step) + level(0)) / extreme);
        if squares > 0.0 && products * products > best * squares {
            scale = products / squares;
            best = scale * products;
        }
    }
    scale
}

/// Scales of all blocks of 32 in some values.
fn scales(values: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let variance = energy(values) * (2.0 / values.len() as f32);
    let of_block = |(index, block): (usize, &[f32])| match importance {
        Some(importance) => scale_of(block, &weigh(block, &importance[32 * index..][..32], variance)),
        None => scale_of(block, &block.iter().map(|value| value * value).collect::<Vec<f32>>()),
    };
    values.chunks(32).enumerate().map(of_block).collect()
}

/// Codes under a scale, two in a byte: one of the first half of the block below one of the second.
fn codes(block: &[f32], scale: f32) -> Vec<u8> {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let code = |place: usize| nearest(inverse * block[place]);
    (0..16).map(|place| code(place) | code(place + 16) << 4).collect()
}

pub fn iq4_nl(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, block) in values.chunks(32).enumerate() {
        let scale = scales(block, importance.map(|all| &all[32 * index..][..32]))[0];
        bytes.extend(to_half(scale).0.to_le_bytes());
        bytes.extend(codes(block, scale));
    }
    bytes
}

pub fn iq4_xs(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, block) in values.chunks(256).enumerate() {
        let scales = scales(block, importance.map(|all| &all[256 * index..][..256]));
        let scale = -extreme(&scales).0 / 32.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let steps: Vec<i32> = scales.iter().map(|scale| whole(inverse * scale).clamp(-32, 31)).collect();
        let stored: Vec<u16> = steps.iter().map(|step| (step + 32) as u16).collect();
        bytes.extend(to_half(scale).0.to_le_bytes());
        bytes.extend((0..8).fold(0, |bits, part| bits | (stored[part] >> 4) << (2 * part)).to_le_bytes());
        bytes.extend((0..4).map(|pair| (stored[2 * pair] & 15 | (stored[2 * pair + 1] & 15) << 4) as u8));
        for (block, &step) in block.chunks(32).zip(&steps) {
            bytes.extend(codes(block, scale * step as f32));
        }
    }
    bytes
}
