//! Twins of the kernels for packed codes.

use super::{arithmetic, round};

/// Code `i` of a packed stream.
pub fn code(packing: &str, packed: &[u8], i: usize) -> u8 {
    let nibble = |n: usize| (packed[n / 2] >> (4 * (n % 2))) & 0xF;
    let field = |bits: usize| {
        (0..bits)
            .map(|b| ((packed[(i * bits + b) / 8] >> ((i * bits + b) % 8)) & 1) << b)
            .fold(0, |code, bit| code | bit)
    };
    match packing {
        "low nibbles" => nibble(i),
        "high nibbles" => nibble(i ^ 1),
        "awq nibbles" => {
            let word = u32::from_le_bytes(packed[i / 8 * 4..][..4].try_into().unwrap());
            (word >> (4 * [0, 4, 1, 5, 2, 6, 3, 7][i % 8]) & 0xF) as u8
        }
        "2 bits" => field(2),
        "3 bits" => field(3),
        "bytes" => packed[i],
        other => panic!("no packing {other}"),
    }
}

/// `value - zero`, or the value alone if there are no zero points.
pub fn less(value: f32, zeros: &[f32], index: usize) -> f32 {
    if zeros.is_empty() { value } else { value - zeros[index] }
}

/// Writes element `i`.
pub fn put(output: &str, value: f32, i: usize, out: &mut [u8]) {
    let bytes = round(output, arithmetic(value));
    out[i * bytes.len()..][..bytes.len()].copy_from_slice(&bytes);
}

/// AWQ words by columns, nibble by nibble.
pub fn transpose_awq(words: &[u8], rows: usize, word_cols: usize, out: &mut [u8]) {
    let bytes = rows.div_ceil(2);
    out[..word_cols * 8 * bytes].fill(0);
    for row in 0..rows {
        for col in 0..word_cols * 8 {
            let code = code("awq nibbles", words, row * word_cols * 8 + col);
            out[col * bytes + row / 2] |= code << (4 * (row % 2));
        }
    }
}

/// Marlin's tiles, nibble by nibble: where each of 1024 codes lies is written out as its packers count it.
pub fn untile_marlin(tiles: &[u8], rows: usize, strips: usize, out: &mut [u8], stride: usize) {
    for strip in 0..strips {
        for output in 0..64 {
            out[(64 * strip + output) * stride..][..8 * rows].fill(0);
        }
    }
    for (tile, words) in tiles[..512 * rows * strips].chunks_exact(512).enumerate() {
        for place in 0..1024 {
            // Thread, square, and which of its eight codes.
            let (thread, square, nibble) = (place / 32, place / 8 % 4, place % 8);
            let taken = [0, 2, 4, 6, 1, 3, 5, 7][nibble];
            let input = 2 * (thread % 4) + [0, 1, 8, 9][taken % 4];
            let output = 16 * square + thread / 4 + 8 * (taken / 4);
            let code = words[place / 2] >> (4 * (place % 2)) & 15;
            let at = (64 * (tile % strips) + output) * stride + 8 * (tile / strips) + input / 2;
            out[at] |= code << (4 * (input % 2));
        }
    }
}
