//! Twins of the types with 256 values under scales of scales: Q2_K to Q6_K.

use super::search::{IMPORTANT, Tries, above, around, energy, extreme, mended, of_scales, to_half, weigh, whole};

/// The bytes of each super-block and its importance, one after the other.
fn blocks(values: &[f32], importance: Option<&[f32]>, encode: impl Fn(&[f32], Option<&[f32]>) -> Vec<u8>) -> Vec<u8> {
    let parts = values.chunks(256).enumerate();
    parts.flat_map(|(index, block)| encode(block, importance.map(|all| &all[256 * index..][..256]))).collect()
}

/// Sub-blocks of so many values as a search finds them above their minima.
struct Above {
    scales: Vec<f32>,
    minima: Vec<f32>,
    levels: Vec<Vec<u8>>,
    /// What the values of each weigh together.
    weights: Vec<f32>,
}

fn find_above(block: &[f32], size: usize, top: i32, tries: Tries, weights: impl Fn(usize) -> Vec<f32>) -> Above {
    let mut found = Above { scales: vec![], minima: vec![], levels: vec![], weights: vec![] };
    for (index, values) in block.chunks(size).enumerate() {
        let weights = weights(index);
        let (scale, minimum, levels) = above(values, &weights, top, tries);
        found.scales.push(scale);
        found.minima.push(minimum);
        found.levels.push(levels);
        found.weights.push(weights.iter().fold(0.0, |sum, weight| sum + weight));
    }
    found
}

/// The levels of a sub-block under its final scale and minimum; without a scale they stay as they were found.
fn settle_above(levels: &mut [u8], values: &[f32], step: f32, below: f32, top: i32) {
    if step != 0.0 {
        for (level, value) in levels.iter_mut().zip(values) {
            *level = whole((value + below) / step).min(top).max(0) as u8;
        }
    }
}

/// The same for codes around zero.
fn settle_around(levels: &mut [u8], values: &[f32], step: f32, half: i32) {
    if step != 0.0 {
        for (level, value) in levels.iter_mut().zip(values) {
            *level = (whole(value / step).min(half - 1).max(-half) + half) as u8;
        }
    }
}

/// Of 128 levels, four that are 32 apart in each byte.
fn quarters(levels: &[u8]) -> Vec<u8> {
    let four = |half: &[u8], place: usize| (0..4).fold(0, |bits, n| bits | (half[place + 32 * n] & 3) << (2 * n));
    levels.chunks(128).flat_map(|half| (0..32).map(move |place| four(half, place))).collect()
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, &value| if value > largest { value } else { largest })
}

pub fn q2_k(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    const BY_SIZE: Tries = Tries { first: -0.5, step: 0.1, count: 15, by_size: true };
    blocks(values, importance, |block, importance| {
        let part = |index: usize| &block[16 * index..][..16];
        let (mut found, scale, minimum, codes);
        if let Some(importance) = importance {
            let variance = energy(block) / 256.0;
            let weights = |index: usize| weigh(part(index), &importance[16 * index..][..16], variance);
            found = find_above(block, 16, 3, IMPORTANT, weights);
            let (scales, minima);
            (scale, scales) = of_scales(&found.scales, &found.weights, 15);
            (minimum, minima) = of_scales(&found.minima, &found.weights, 15);
            codes = scales.iter().zip(&minima).map(|(scale, minimum)| scale | minimum << 4).collect::<Vec<u8>>();
        } else {
            found = find_above(block, 16, 3, BY_SIZE, |index| part(index).iter().map(|value| value.abs()).collect());
            let coded = |values: &[f32]| -> (f32, Vec<i32>) {
                let largest = largest(values);
                let code = |value: &f32| if largest > 0.0 { whole(15.0 / largest * value) } else { 0 };
                (largest / 15.0, values.iter().map(code).collect())
            };
            let ((of_scales, scales), (of_minima, minima)) = (coded(&found.scales), coded(&found.minima));
            (scale, minimum) = (of_scales, of_minima);
            codes = scales.iter().zip(&minima).map(|(scale, minimum)| *scale as u8 | (minimum << 4) as u8).collect();
        }
        let ((scale_bits, scale), (minimum_bits, minimum)) = (to_half(scale), to_half(minimum));
        for (index, levels) in found.levels.iter_mut().enumerate() {
            let (step, below) = (scale * f32::from(codes[index] & 15), minimum * f32::from(codes[index] >> 4));
            settle_above(levels, part(index), step, below, 3);
        }
        let levels = quarters(&found.levels.concat());
        [&codes[..], &levels, &scale_bits.to_le_bytes(), &minimum_bits.to_le_bytes()].concat()
    })
}

pub fn q3_k(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    blocks(values, importance, |block, importance| {
        let parts: Vec<&[f32]> = block.chunks(16).collect();
        // Six-bit codes from zero on. Without any scale they are left at zero, which stands for −32.
        let (mut levels, scale, codes): (Vec<Vec<u8>>, f32, Vec<u8>);
        if let Some(importance) = importance {
            let variance = 2.0 * energy(block) / 256.0;
            let weights: Vec<Vec<f32>> =
                parts.iter().zip(importance.chunks(16)).map(|(part, weights)| weigh(part, weights, variance)).collect();
            let found = parts.iter().zip(&weights).map(|(part, weights)| around(part, weights, 4));
            let scales: Vec<f32>;
            (scales, levels) = found.unzip();
            let sums: Vec<f32> = weights.iter().map(|all| all.iter().fold(0.0, |sum, weight| sum + weight)).collect();
            (scale, codes) = around(&scales, &sums, 32);
        } else {
            let scales: Vec<f32>;
            (scales, levels) = parts.iter().map(|part| mended(part, 4)).unzip();
            let largest = extreme(&scales).0;
            let inverse = -32.0 / largest;
            let code = |scale: &f32| (i32::from(whole(inverse * scale) as i8).clamp(-32, 31) + 32) as u8;
            (scale, codes) = match largest {
                0.0 => (0.0, vec![0; 16]),
                _ => (1.0 / inverse, scales.iter().map(code).collect()),
            };
        }
        let (scale_bits, scale) = to_half(scale);
        for ((levels, part), &code) in levels.iter_mut().zip(&parts).zip(&codes) {
            settle_around(levels, part, scale * (i32::from(code) - 32) as f32, 4);
        }
        let levels = levels.concat();
        let thirds = (0..32).map(|place| (0..8).fold(0, |bits, n| bits | (levels[place + 32 * n] >> 2) << n));
        let mut bytes: Vec<u8> = thirds.collect();
        bytes.extend(quarters(&levels));
        bytes.extend((0..8).map(|place| codes[place] & 15 | (codes[place + 8] & 15) << 4));
        bytes.extend((0..4).map(|place| (0..4).fold(0, |bits, n| bits | (codes[place + 4 * n] >> 4) << (2 * n))));
        bytes.extend(scale_bits.to_le_bytes());
        bytes
    })
}

/// Eight scales and minima of six bits in twelve bytes: the upper two bits of the last four stand above the first four.
fn twelve(scales: &[u8], minima: &[u8]) -> Vec<u8> {
    let first = |all: &[u8]| -> Vec<u8> { (0..4).map(|j| all[j] | (all[j + 4] >> 4) << 6).collect() };
    let lower = (4..8).map(|j| scales[j] & 15 | (minima[j] & 15) << 4).collect();
    [first(scales), first(minima), lower].concat()
}

/// What Q4_K and Q5_K begin with, and their levels.
fn eight(block: &[f32], importance: Option<&[f32]>, top: i32, tries: Tries) -> (Vec<u8>, Vec<u8>) {
    let part = |index: usize| &block[32 * index..][..32];
    let (mut found, scale, scales, minimum, minima);
    if let Some(importance) = importance {
        let variance = 2.0 * energy(block) / 256.0;
        let weights = |index: usize| weigh(part(index), &importance[32 * index..][..32], variance);
        found = find_above(block, 32, top, IMPORTANT, weights);
        (scale, scales) = of_scales(&found.scales, &found.weights, 63);
        (minimum, minima) = of_scales(&found.minima, &found.weights, 63);
    } else {
        let weights = |index: usize| {
            let average = (energy(part(index)) / 32.0).sqrt();
            part(index).iter().map(|value| average + value.abs()).collect()
        };
        found = find_above(block, 32, top, tries, weights);
        let coded = |values: &[f32]| -> (f32, Vec<u8>) {
            let largest = largest(values);
            let inverse = if largest > 0.0 { 63.0 / largest } else { 0.0 };
            (largest / 63.0, values.iter().map(|value| (whole(inverse * value) as u8).min(63)).collect())
        };
        ((scale, scales), (minimum, minima)) = (coded(&found.scales), coded(&found.minima));
    }
    let ((scale_bits, scale), (minimum_bits, minimum)) = (to_half(scale), to_half(minimum));
    for (index, levels) in found.levels.iter_mut().enumerate() {
        let (step, below) = (scale * f32::from(scales[index]), minimum * f32::from(minima[index]));
        settle_above(levels, part(index), step, below, top);
    }
    let front = [&scale_bits.to_le_bytes()[..], &minimum_bits.to_le_bytes(), &twelve(&scales, &minima)].concat();
    (front, found.levels.concat())
}

/// Of each 64 levels, the lower four bits of two that are 32 apart in each byte.
fn halves(levels: &[u8]) -> Vec<u8> {
    let two = |part: &[u8], place: usize| part[place] & 15 | (part[place + 32] & 15) << 4;
    levels.chunks(64).flat_map(|part| (0..32).map(move |place| two(part, place))).collect()
}

pub fn q4_k(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    const TRIES: Tries = Tries { first: -1.0, step: 0.1, count: 20, by_size: false };
    blocks(values, importance, |block, importance| {
        let (front, levels) = eight(block, importance, 15, TRIES);
        [front, halves(&levels)].concat()
    })
}

pub fn q5_k(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    const TRIES: Tries = Tries { first: -0.5, step: 0.1, count: 15, by_size: false };
    blocks(values, importance, |block, importance| {
        let (front, levels) = eight(block, importance, 31, TRIES);
        let fifths = (0..32).map(|place| (0..8).fold(0, |bits, n| bits | (levels[place + 32 * n] >> 4) << n)).collect();
        [front, fifths, halves(&levels)].concat()
    })
}

pub fn q6_k(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    blocks(values, importance, |block, importance| {
        let squares: Vec<f32> = block.iter().map(|value| value * value).collect();
        let parts = block.chunks(16).zip(importance.unwrap_or(&squares).chunks(16));
        let (scales, mut levels): (Vec<f32>, Vec<Vec<u8>>) =
            parts.map(|(part, weights)| around(part, weights, 32)).unzip();
        let (largest, size) = extreme(&scales);
        if size < super::search::NOTHING {
            return vec![0; 210];
        }
        let inverse = -128.0 / largest;
        let (scale_bits, scale) = to_half(1.0 / inverse);
        let codes: Vec<i8> = scales.iter().map(|scale| whole(inverse * scale).min(127) as i8).collect();
        for ((levels, part), &code) in levels.iter_mut().zip(block.chunks(16)).zip(&codes) {
            settle_around(levels, part, scale * f32::from(code), 32);
        }
        let levels = levels.concat();
        let mut bytes = Vec::new();
        for half in levels.chunks(128) {
            bytes.extend((0..64).map(|place| half[place] & 15 | (half[place + 64] & 15) << 4));
        }
        bytes.extend(quarters(&levels.iter().map(|level| level >> 4).collect::<Vec<u8>>()));
        bytes.extend(codes.iter().map(|code| code.cast_unsigned()));
        bytes.extend(scale_bits.to_le_bytes());
        bytes
    })
}
