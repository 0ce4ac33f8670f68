//! Transposition of packed words, so that the codes of one output row are adjacent.

use crate::base::level::Level;
use crate::base::simd::{Simd, TILE, Tile};

/// Rows of a panel of [`transpose_awq`]; each of its eight tiles has every eighth row.
const PANEL: usize = 8 * TILE;

/// The column of each nibble of a word, lowest first.
const AWQ_COLUMNS: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Transposes a matrix of 32-bit words, `rows` by `cols`, into `out`, `cols` by `rows`.
///
/// Nothing is written unless `words` and `out` hold the whole matrix.
///
/// ```
/// use anamnesis_kernels::{Level, transpose_words};
///
/// let words = [[1, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0], [4, 0, 0, 0]].concat();
/// let mut out = [0; 16];
/// transpose_words(Level::detect(), &words, 2, 2, &mut out);
/// assert_eq!((out[4], out[8]), (3, 2));
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn transpose_words(level: Level, words: &[u8], rows: usize, cols: usize, out: &mut [u8]) -> usize {
    let (words, out) = (words.as_chunks::<4>().0, out.as_chunks_mut::<4>().0);
    let Some(count) = rows.checked_mul(cols) else { return 0 };
    if let (Some(words), Some(out)) = (words.get(..count), out.get_mut(..count))
        && count > 0
    {
        return 4 * words_kernel(level, words, rows, cols, out);
    }
    0
}

/// Transposes AWQ words, `rows` by `word_cols` of eight columns each, into nibbles, `8 * word_cols` by `rows`.
///
/// A row of `out` has `rows.div_ceil(2)` bytes, low nibbles first; for an odd number of rows the last nibble is zero.
/// Nothing is written unless `words` and `out` hold the whole matrix.
#[must_use = "output past the returned count keeps its old contents"]
pub fn transpose_awq(level: Level, words: &[u8], rows: usize, word_cols: usize, out: &mut [u8]) -> usize {
    let words = words.as_chunks::<4>().0;
    let bytes = rows.div_ceil(2);
    let Some(count) = rows.checked_mul(word_cols) else { return 0 };
    let Some(size) = word_cols.checked_mul(8).and_then(|cols| cols.checked_mul(bytes)) else { return 0 };
    if let (Some(words), Some(out)) = (words.get(..count), out.get_mut(..size))
        && count > 0
    {
        return awq_kernel(level, words, rows, word_cols, out);
    }
    0
}

kernel! {
    fn words_kernel(words: &[[u8; 4]], rows: usize, cols: usize, out: &mut [[u8; 4]]) = words_body
}

kernel! {
    fn awq_kernel(words: &[[u8; 4]], rows: usize, word_cols: usize, out: &mut [u8]) = awq_body
}

/// The words of sixteen rows from `start`, `stride` apart, if the matrix has them all.
#[inline(always)]
fn load(words: &[[u8; 4]], start: usize, stride: usize) -> Option<Tile> {
    let mut tile = [[0; TILE]; TILE];
    for (i, row) in tile.iter_mut().enumerate() {
        let from: &[_; TILE] = words.get(start + i * stride..)?.first_chunk()?;
        for (to, from) in row.iter_mut().zip(from) {
            *to = u32::from_le_bytes(*from);
        }
    }
    Some(tile)
}

/// The first `width` words of up to sixteen rows from `start`, `stride` apart, padded with zeros.
#[inline(always)]
fn load_some(words: &[[u8; 4]], start: usize, stride: usize, width: usize) -> Tile {
    let mut tile = [[0; TILE]; TILE];
    for (i, row) in tile.iter_mut().enumerate() {
        let from = words.get(start + i * stride..).unwrap_or_default();
        for (to, from) in row[..width].iter_mut().zip(from) {
            *to = u32::from_le_bytes(*from);
        }
    }
    tile
}

#[inline(always)]
fn words_body<S: Simd>(simd: S, words: &[[u8; 4]], rows: usize, cols: usize, out: &mut [[u8; 4]]) -> usize {
    for col in (0..cols).step_by(TILE) {
        let width = TILE.min(cols - col);
        let whole = if width == TILE { rows - rows % TILE } else { 0 };
        for row in (0..whole).step_by(TILE) {
            let Some(tile) = load(words, row * cols + col, cols) else { return 0 };
            for (i, from) in simd.transpose(&tile).iter().enumerate() {
                let to: Option<&mut [_; TILE]> = out.get_mut((col + i) * rows + row..).and_then(<[_]>::first_chunk_mut);
                let Some(to) = to else { return 0 };
                for (to, from) in to.iter_mut().zip(from) {
                    *to = from.to_le_bytes();
                }
            }
        }
        for row in (whole..rows).step_by(TILE) {
            let tile = simd.transpose(&load_some(words, row * cols + col, cols, width));
            for (i, from) in tile.iter().enumerate().take(width) {
                let to = out.get_mut((col + i) * rows..).and_then(|out| out.get_mut(row..rows)).unwrap_or_default();
                for (to, from) in to.iter_mut().zip(from) {
                    *to = from.to_le_bytes();
                }
            }
        }
    }
    out.len()
}

#[inline(always)]
fn awq_body<S: Simd>(simd: S, words: &[[u8; 4]], rows: usize, word_cols: usize, out: &mut [u8]) -> usize {
    let bytes = rows.div_ceil(2);
    // Tile i has rows i, i + 8, i + 16, …: lane l of its columns is row 8 l + i.
    let mut tiles = [[[0; TILE]; TILE]; 8];
    for col in (0..word_cols).step_by(TILE) {
        let width = TILE.min(word_cols - col);
        let whole = if width == TILE { rows - rows % PANEL } else { 0 };
        for row in (0..whole).step_by(PANEL) {
            for (i, tile) in tiles.iter_mut().enumerate() {
                let Some(from) = load(words, (row + i) * word_cols + col, 8 * word_cols) else { return 0 };
                *tile = simd.transpose(&from);
            }
            for word_col in 0..TILE {
                for (column, lanes) in AWQ_COLUMNS.iter().zip(&transpose_nibbles(&tiles, word_col)) {
                    let start = ((col + word_col) * 8 + column) * bytes + row / 2;
                    let Some(out) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut) else { return 0 };
                    *out = to_bytes(lanes);
                }
            }
        }
        for row in (whole..rows).step_by(PANEL) {
            for (i, tile) in tiles.iter_mut().enumerate() {
                *tile = simd.transpose(&load_some(words, (row + i) * word_cols + col, 8 * word_cols, width));
            }
            for word_col in 0..width {
                for (column, lanes) in AWQ_COLUMNS.iter().zip(&transpose_nibbles(&tiles, word_col)) {
                    let start = ((col + word_col) * 8 + column) * bytes;
                    let out = out.get_mut(start..start + bytes).and_then(|out| out.get_mut(row / 2..));
                    for (to, from) in out.unwrap_or_default().iter_mut().zip(to_bytes(lanes)) {
                        *to = from;
                    }
                }
            }
        }
    }
    out.len()
}

/// Words as little-endian bytes.
#[inline(always)]
fn to_bytes(lanes: &[u32; TILE]) -> [u8; 4 * TILE] {
    let mut bytes = [0; 4 * TILE];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(lanes) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Transposes eight words of eight nibbles in each lane: nibble `i` of result `k` is nibble `k` of word `i`.
#[inline(always)]
fn transpose_nibbles(tiles: &[Tile; 8], word_col: usize) -> [[u32; TILE]; 8] {
    let mut words = [[0; TILE]; 8];
    for (to, tile) in words.iter_mut().zip(tiles) {
        *to = tile[word_col];
    }
    words = exchange::<4>(words, 0x0000_FFFF);
    words = exchange::<2>(words, 0x00FF_00FF);
    exchange::<1>(words, 0x0F0F_0F0F)
}

/// Exchanges the upper fields of each word with the lower fields of the word at distance `D`.
#[inline(always)]
fn exchange<const D: usize>(words: [[u32; TILE]; 8], low: u32) -> [[u32; TILE]; 8] {
    let mut exchanged = [[0; TILE]; 8];
    for i in 0..8 {
        if i & D != 0 {
            continue;
        }
        for lane in 0..TILE {
            let (a, b) = (words[i][lane], words[i + D][lane]);
            exchanged[i][lane] = (a & low) | ((b & low) << (4 * D));
            exchanged[i + D][lane] = ((a & !low) >> (4 * D)) | (b & !low);
        }
    }
    exchanged
}
