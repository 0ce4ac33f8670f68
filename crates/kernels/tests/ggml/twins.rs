//! Twins of the block types, written from the layouts, one element at a time.
//!
//! The points of the grids are those that ggml decoded for the golden files.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

const IQ4: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const FP4: [i32; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Elements and bytes of a block.
fn geometry(name: &str) -> (usize, usize) {
    match name {
        "Q4_0" | "IQ4_NL" => (32, 18),
        "Q4_1" => (32, 20),
        "Q5_0" => (32, 22),
        "Q5_1" => (32, 24),
        "Q8_0" => (32, 34),
        "Q8_1" => (32, 36),
        "MXFP4" => (32, 17),
        "NVFP4" => (64, 36),
        "Q1_0" => (128, 18),
        "Q2_0" => (64, 18),
        "Q2_K" => (256, 84),
        "Q3_K" | "IQ3_S" => (256, 110),
        "Q4_K" => (256, 144),
        "Q5_K" => (256, 176),
        "Q6_K" => (256, 210),
        "Q8_K" => (256, 292),
        "IQ1_S" => (256, 50),
        "IQ1_M" => (256, 56),
        "IQ2_XXS" | "TQ2_0" => (256, 66),
        "IQ2_XS" => (256, 74),
        "IQ2_S" => (256, 82),
        "IQ3_XXS" => (256, 98),
        "IQ4_XS" => (256, 136),
        "TQ1_0" => (256, 54),
        other => panic!("no geometry of {other}"),
    }
}

/// Decodes as many blocks as there are.
pub fn decode(name: &str, blocks: &[u8]) -> Vec<f32> {
    let (elements, bytes) = geometry(name);
    let block = |block| (0..elements).map(move |i| element(name, block, i));
    blocks.chunks_exact(bytes).flat_map(block).collect()
}

/// Writes F16 into the places of a block's scales.
pub fn set_halves(name: &str, block: &mut [u8], first: u16, second: u16) {
    let places: &[usize] = match name {
        "Q4_1" | "Q5_1" | "Q4_K" | "Q5_K" => &[0, 2],
        "Q2_K" => &[80, 82],
        "Q3_K" => &[108],
        "Q6_K" => &[208],
        "TQ1_0" => &[52],
        "TQ2_0" => &[64],
        "MXFP4" | "NVFP4" => &[],
        "Q8_K" => {
            block[..4].copy_from_slice(&f32_of(first).to_le_bytes());
            &[]
        }
        "IQ1_M" => {
            for i in 0..4 {
                block[49 + 2 * i] = block[49 + 2 * i] & 0x0F | ((first >> (4 * i)) as u8 & 0x0F) << 4;
            }
            &[]
        }
        _ => &[0],
    };
    for (place, half) in places.iter().zip([first, second]) {
        block[*place..place + 2].copy_from_slice(&half.to_le_bytes());
    }
}

fn f32_of(half: u16) -> f32 {
    half::f16::from_bits(half).to_f32()
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f32_of(word_at(block, at) as u16)
}

fn word_at(block: &[u8], at: usize) -> u32 {
    u32::from(block[at]) | u32::from(block[at + 1]) << 8
}

fn double_at(block: &[u8], at: usize) -> u32 {
    word_at(block, at) | word_at(block, at + 2) << 16
}

/// The low or high half of a byte.
fn nibble(byte: u8, high: bool) -> i32 {
    i32::from(if high { byte >> 4 } else { byte & 15 })
}

fn bit(byte: u8, place: usize) -> i32 {
    i32::from(byte >> place & 1)
}

/// A six-bit scale (first half) or minimum (second half) of Q4_K and Q5_K.
fn six_bits(packed: &[u8], minimum: bool, group: usize) -> f32 {
    let at = if minimum { 4 } else { 0 };
    let code = if group < 4 {
        packed[at + group] & 63
    } else {
        nibble(packed[8 + group - 4], minimum) as u8 | packed[at + group - 4] >> 6 << 4
    };
    f32::from(code)
}

/// What ggml decoded for each point of a grid, with scales that make it an integer.
fn grid(name: &str, point: usize, element: usize) -> i32 {
    static GRIDS: LazyLock<Mutex<HashMap<String, Vec<u8>>>> = LazyLock::new(Mutex::default);
    let mut grids = GRIDS.lock().unwrap();
    let bytes = grids.entry(name.into()).or_insert_with(|| super::golden(&format!("{}.grid.i8", name.to_lowercase())));
    let per_point = if name.starts_with("IQ3") { 4 } else { 8 };
    i32::from(bytes[per_point * point + element] as i8)
}

/// A sign of eight, of which seven are given and the product is positive.
fn even_sign(seven: u32, place: usize) -> f32 {
    let seven = seven & 127;
    let negative = if place == 7 { seven.count_ones() % 2 == 1 } else { seven >> place & 1 == 1 };
    if negative { -1.0 } else { 1.0 }
}

fn sign(byte: u8, place: usize) -> f32 {
    if bit(byte, place) == 1 { -1.0 } else { 1.0 }
}

/// The first digit of base three of a byte, after so many others.
fn digit(byte: u8, place: usize) -> i32 {
    let byte = u32::from(byte) * 3u32.pow(place as u32) % 256;
    (byte * 3 / 256) as i32
}

/// One element of a block.
fn element(name: &str, block: &[u8], i: usize) -> f32 {
    // Places in blocks of 32, in groups of 32, and in runs of 16 and 8.
    let (group, place) = (i / 32, i % 32);
    let high = place >= 16;
    match name {
        "Q4_0" => (nibble(block[2 + i % 16], high) - 8) as f32 * half_at(block, 0),
        "Q4_1" => nibble(block[4 + i % 16], high) as f32 * half_at(block, 0) + half_at(block, 2),
        "Q5_0" => {
            let code = nibble(block[6 + i % 16], high) + 16 * bit(block[2 + i / 8], i % 8);
            (code - 16) as f32 * half_at(block, 0)
        }
        "Q5_1" => {
            let code = nibble(block[8 + i % 16], high) + 16 * bit(block[4 + i / 8], i % 8);
            code as f32 * half_at(block, 0) + half_at(block, 2)
        }
        "Q8_0" => f32::from(block[2 + i] as i8) * half_at(block, 0),
        "Q8_1" => f32::from(block[4 + i] as i8) * half_at(block, 0),
        "Q8_K" => f32::from_bits(double_at(block, 0)) * f32::from(block[4 + i] as i8),
        "Q1_0" => {
            let scale = half_at(block, 0);
            if bit(block[2 + i / 8], i % 8) == 1 { scale } else { -scale }
        }
        "Q2_0" => (i32::from(block[2 + i / 4] >> (i % 4 * 2) & 3) - 1) as f32 * half_at(block, 0),
        "TQ2_0" => {
            let byte = block[i / 128 * 32 + place];
            (i32::from(byte >> (group % 4 * 2) & 3) - 1) as f32 * half_at(block, 64)
        }
        "TQ1_0" => {
            let digit = match i {
                0..160 => digit(block[i % 32], i / 32),
                160..240 => digit(block[32 + i % 16], (i - 160) / 16),
                _ => digit(block[48 + i % 4], (i - 240) / 4),
            };
            (digit - 1) as f32 * half_at(block, 52)
        }
        "Q2_K" => {
            let scales = block[i / 16];
            let scale = half_at(block, 80) * f32::from(scales & 15);
            let minimum = half_at(block, 82) * f32::from(scales >> 4);
            let code = block[16 + i / 128 * 32 + place] >> (group % 4 * 2) & 3;
            scale * f32::from(code) - minimum
        }
        "Q3_K" => {
            let n = i / 16;
            let lower = nibble(block[96 + n % 8], n >= 8);
            let upper = i32::from(block[104 + n % 4] >> (n / 4 * 2) & 3);
            let scale = half_at(block, 108) * (lower + 16 * upper - 32) as f32;
            let lower = i32::from(block[32 + i / 128 * 32 + place] >> (group % 4 * 2) & 3);
            scale * (lower + 4 * bit(block[place], group) - 4) as f32
        }
        "Q4_K" | "Q5_K" => {
            let scale = half_at(block, 0) * six_bits(&block[4..16], false, group);
            let minimum = half_at(block, 2) * six_bits(&block[4..16], true, group);
            let codes = if name == "Q4_K" { 16 } else { 48 };
            let mut code = nibble(block[codes + i / 64 * 32 + place], group % 2 == 1);
            if name == "Q5_K" {
                code += 16 * bit(block[16 + place], group);
            }
            scale * code as f32 - minimum
        }
        "Q6_K" => {
            let scale = half_at(block, 208) * f32::from(block[192 + i / 16] as i8);
            let lower = nibble(block[i / 128 * 64 + i % 64], i % 128 >= 64);
            let upper = i32::from(block[128 + i / 128 * 32 + place] >> (group % 4 * 2) & 3);
            scale * (lower + 16 * upper - 32) as f32
        }
        "IQ4_NL" => half_at(block, 0) * IQ4[nibble(block[2 + i % 16], high) as usize] as f32,
        "IQ4_XS" => {
            let lower = nibble(block[4 + group / 2], group % 2 == 1);
            let upper = (word_at(block, 2) >> (2 * group) & 3) as i32;
            let scale = half_at(block, 0) * (lower + 16 * upper - 32) as f32;
            scale * IQ4[nibble(block[8 + 16 * group + i % 16], high) as usize] as f32
        }
        "MXFP4" => {
            let scale = 2f64.powi(i32::from(block[0]) - 128) as f32;
            FP4[nibble(block[1 + i % 16], high) as usize] as f32 * scale
        }
        "NVFP4" => {
            let byte = block[i / 16];
            let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
            let scale = match (byte, exponent) {
                (0x7F, _) => 0.0,
                (_, 0) => mantissa * 2f64.powi(-9),
                _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
            };
            let code = nibble(block[4 + i / 16 * 8 + i % 8], i % 16 >= 8);
            FP4[code as usize] as f32 * (scale / 2.0) as f32
        }
        "IQ2_XXS" => {
            let rest = double_at(block, 6 + 8 * group);
            let scale = half_at(block, 0) * (0.5 + (rest >> 28) as f32) * 0.25;
            let point = usize::from(block[2 + 8 * group + place / 8]);
            scale * grid(name, point, i % 8) as f32 * even_sign(rest >> (place / 8 * 7), i % 8)
        }
        "IQ2_XS" => {
            let word = word_at(block, 2 + i / 8 * 2);
            let scale = half_at(block, 0) * (0.5 + nibble(block[66 + group], high) as f32) * 0.25;
            scale * grid(name, word as usize & 511, i % 8) as f32 * even_sign(word >> 9, i % 8)
        }
        "IQ2_S" => {
            let upper = usize::from(block[66 + group] >> (place / 8 * 2) & 3);
            let point = usize::from(block[2 + i / 8]) + 256 * upper;
            let scale = half_at(block, 0) * (0.5 + nibble(block[74 + group], high) as f32) * 0.25;
            scale * grid(name, point, i % 8) as f32 * sign(block[34 + i / 8], i % 8)
        }
        "IQ3_XXS" => {
            let rest = double_at(block, 66 + 4 * group);
            let scale = half_at(block, 0) * (0.5 + (rest >> 28) as f32) * 0.5;
            let point = usize::from(block[2 + i / 4]);
            scale * grid(name, point, i % 4) as f32 * even_sign(rest >> (place / 8 * 7), i % 8)
        }
        "IQ3_S" => {
            let point = usize::from(block[2 + i / 4]) + 256 * bit(block[66 + group], place / 4) as usize;
            let scale = half_at(block, 0) * (1 + 2 * nibble(block[106 + group / 2], group % 2 == 1)) as f32;
            scale * grid(name, point, i % 4) as f32 * sign(block[74 + i / 8], i % 8)
        }
        "IQ1_S" => {
            let rest = word_at(block, 34 + 2 * group);
            let point = usize::from(block[2 + i / 8]) + 256 * (rest as usize >> (place / 8 * 3) & 7);
            let scale = half_at(block, 0) * (2 * (rest >> 12 & 7) + 1) as f32;
            let offset = if rest & 0x8000 != 0 { -0.125 } else { 0.125 };
            // The golden grid has eight times the element plus an eighth.
            scale * (((grid("IQ1_S", point, i % 8) - 1) / 8) as f32 + offset)
        }
        "IQ1_M" => {
            let words: Vec<u32> = (0..4).map(|n| word_at(block, 48 + 2 * n)).collect();
            let half = words.iter().enumerate().fold(0, |half, (n, word)| half | word >> 12 << (4 * n));
            let rest = nibble(block[32 + i / 16], i % 16 >= 8);
            let point = usize::from(block[i / 8]) + 256 * (rest as usize & 7);
            let code = words[i / 64] >> (i % 64 / 16 * 3) & 7;
            let offset = if rest & 8 != 0 { -0.125 } else { 0.125 };
            let scale = f32_of(half as u16) * (2 * code + 1) as f32;
            scale * (((grid("IQ1_S", point, i % 8) - 1) / 8) as f32 + offset)
        }
        other => panic!("no twin of {other}"),
    }
}
