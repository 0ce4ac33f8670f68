//! Conversion of Marlin tiles to rows of codes.
//!
//! A tile is 16 inputs by 64 outputs in 128 words, in the order in which the threads of a matrix multiplication load them: eight
//! columns `c`, four pairs of inputs `m`, four squares `j` of 16 by 16. Word `(c, m, j)` holds, in its eight nibbles, inputs
//! `2m`, `2m + 1`, `2m + 8` and `2m + 9` of outputs `16j + c` and `16j + c + 8`.

use crate::base::level::Level;
use crate::base::simd::{Simd, TILE};

/// Bytes of a tile.
const TILE_BYTES: usize = 512;
/// Outputs of a tile.
const OUTPUTS: usize = 64;
/// Bytes of the 16 inputs of an output.
const ROW_BYTES: usize = 8;
/// Bytes of half a tile (four columns).
const HALF: usize = TILE_BYTES / 2;
/// Rows of tiles that are transposed together; their codes of one output fill a vector.
const PANEL: usize = 8;

/// Converts tiles of four-bit codes, `rows` by `strips`, to `64 * strips` rows of nibbles, low nibbles first.
///
/// A row of `out` has `8 * rows` bytes and starts every `stride` bytes; the bytes between rows are not written. Nothing is
/// written unless `tiles` and `out` hold everything.
///
/// ```
/// use anamnesis_kernels::{Level, untile_marlin};
///
/// let mut tile = [0; 512];
/// tile[2] = 0x07; // nibble 4 of the first word: input 1 of output 0
/// let mut out = [0; 512];
/// untile_marlin(Level::detect(), &tile, 1, 1, &mut out, 8);
/// assert_eq!(out[0], 0x70);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn untile_marlin(level: Level, tiles: &[u8], rows: usize, strips: usize, out: &mut [u8], stride: usize) -> usize {
    let fits = || {
        let size = rows.checked_mul(strips)?.checked_mul(TILE_BYTES)?;
        let width = rows.checked_mul(ROW_BYTES).filter(|&width| 0 < width && width <= stride)?;
        let last = strips.checked_mul(OUTPUTS)?.checked_sub(1)?;
        let end = last.checked_mul(stride)?.checked_add(width)?;
        (tiles.len() >= size && out.len() >= end).then_some(())
    };
    match fits() {
        Some(()) => kernel(level, tiles, rows, strips, out, stride),
        None => 0,
    }
}

kernel! {
    fn kernel(tiles: &[u8], rows: usize, strips: usize, out: &mut [u8], stride: usize) = body
}

#[inline(always)]
fn body<S: Simd>(simd: S, tiles: &[u8], rows: usize, strips: usize, out: &mut [u8], stride: usize) -> usize {
    let tiles = tiles.as_chunks::<TILE_BYTES>().0;
    for row in (0..rows).step_by(PANEL) {
        let width = PANEL.min(rows - row) * ROW_BYTES;
        for strip in 0..strips {
            for half in 0..2 {
                // The words of an output become a lane, and the lanes of a panel are transposed into rows.
                let mut panels = [[[0; TILE]; TILE]; 2];
                for at in 0..PANEL.min(rows - row) {
                    let tile = tiles.get((row + at) * strips + strip).map(|tile| tile.as_chunks::<HALF>().0);
                    let Some(tile) = tile.and_then(|halves| halves.get(half)) else { return 0 };
                    let [low, next, high, last] = transposed_half(tile);
                    [panels[0][2 * at], panels[1][2 * at]] = [low, next];
                    [panels[0][2 * at + 1], panels[1][2 * at + 1]] = [high, last];
                }
                for (panel, offset) in panels.iter().zip([0, 8]) {
                    for (lane, words) in simd.transpose(panel).iter().enumerate() {
                        let output = strip * OUTPUTS + 16 * (lane % 4) + 4 * half + lane / 4 + offset;
                        let start = output * stride + row * ROW_BYTES;
                        let Some(out) = out.get_mut(start..start + width) else { return 0 };
                        let bytes = to_bytes(words);
                        match out.first_chunk_mut() {
                            Some(out) => *out = bytes,
                            None => out.iter_mut().zip(bytes).for_each(|(to, from)| *to = from),
                        }
                    }
                }
            }
        }
    }
    rows * strips * TILE_BYTES
}

/// Words as little-endian bytes.
#[inline(always)]
fn to_bytes(words: &[u32; TILE]) -> [u8; PANEL * ROW_BYTES] {
    let mut bytes = [0; PANEL * ROW_BYTES];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Half of a tile, four columns of four squares: the first eight inputs of their outputs, those of the outputs at distance
/// eight, and the last eight inputs of both.
#[inline(always)]
fn transposed_half(tile: &[u8; HALF]) -> [[u32; TILE]; 4] {
    let mut words = [[0; TILE]; 4];
    for (column, of_column) in tile.as_chunks::<64>().0.iter().enumerate() {
        for (pair, of_pair) in of_column.as_chunks::<16>().0.iter().enumerate() {
            for (square, word) in of_pair.as_chunks::<4>().0.iter().enumerate() {
                words[pair][4 * column + square] = u32::from_le_bytes(*word);
            }
        }
    }
    // Adjacent inputs share a byte: the first eight inputs in the low half of a word, the last eight in the high half.
    for words in &mut words {
        for word in words {
            *word = (*word & 0xF0F0_0F0F) | (*word >> 12 & 0xF0F0) | (*word << 12 & 0x0F0F_0000);
        }
    }
    exchange::<1>(exchange::<2>(words, 0x0000_FFFF), 0x00FF_00FF)
}

/// Exchanges the upper fields of each word with the lower fields of the word at distance `D`.
#[inline(always)]
fn exchange<const D: usize>(words: [[u32; TILE]; 4], low: u32) -> [[u32; TILE]; 4] {
    let mut exchanged = [[0; TILE]; 4];
    for i in 0..4 {
        if i & D != 0 {
            continue;
        }
        for lane in 0..TILE {
            let (a, b) = (words[i][lane], words[i + D][lane]);
            exchanged[i][lane] = (a & low) | ((b & low) << (8 * D));
            exchanged[i + D][lane] = ((a & !low) >> (8 * D)) | (b & !low);
        }
    }
    exchanged
}
