//! Matrices of packed words turned so that the codes of one output row follow each other.

use crate::level::Level;
use crate::simd::{Simd, TILE, Tile};

/// Rows of a panel of [`transpose_awq`]: each tile takes every eighth of them.
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
pub fn transpose_words(level: Level, words: &[u8], rows: usize, cols: usize, out: &mut [u8]) {
    let (words, out) = (words.as_chunks::<4>().0, out.as_chunks_mut::<4>().0);
    let Some(count) = rows.checked_mul(cols) else { return };
    if let (Some(words), Some(out)) = (words.get(..count), out.get_mut(..count))
        && count > 0
    {
        words_kernel(level, words, rows, cols, out);
    }
}

/// Transposes AWQ words, `rows` by `word_cols` of eight columns each, into nibbles, `8 * word_cols` by `rows`.
///
/// A row of `out` has `rows.div_ceil(2)` bytes, the low half of each first; the last half byte of an odd number of rows
/// is zero. Nothing is written unless `words` and `out` hold the whole matrix.
pub fn transpose_awq(level: Level, words: &[u8], rows: usize, word_cols: usize, out: &mut [u8]) {
    let words = words.as_chunks::<4>().0;
    let bytes = rows.div_ceil(2);
    let Some(count) = rows.checked_mul(word_cols) else { return };
    let Some(size) = word_cols.checked_mul(8).and_then(|cols| cols.checked_mul(bytes)) else { return };
    if let (Some(words), Some(out)) = (words.get(..count), out.get_mut(..size))
        && count > 0
    {
        awq_kernel(level, words, rows, word_cols, out);
    }
}

kernel! {
    fn words_kernel(words: &[[u8; 4]], rows: usize, cols: usize, out: &mut [[u8; 4]]) = words_body
}

kernel! {
    fn awq_kernel(words: &[[u8; 4]], rows: usize, word_cols: usize, out: &mut [u8]) = awq_body
}

/// The words of up to sixteen rows from `start`, `stride` apart; what the matrix does not have is zero.
#[inline(always)]
fn load(words: &[[u8; 4]], start: usize, stride: usize, width: usize) -> Tile {
    let mut tile = [[0; TILE]; TILE];
    for (i, row) in tile.iter_mut().enumerate() {
        let Some(from) = words.get(start + i * stride..) else { break };
        match from.first_chunk::<TILE>() {
            Some(from) if width == TILE => {
                for (to, from) in row.iter_mut().zip(from) {
                    *to = u32::from_le_bytes(*from);
                }
            }
            _ => {
                for (to, from) in row[..width].iter_mut().zip(from) {
                    *to = u32::from_le_bytes(*from);
                }
            }
        }
    }
    tile
}

#[inline(always)]
fn words_body<S: Simd>(simd: S, words: &[[u8; 4]], rows: usize, cols: usize, out: &mut [[u8; 4]]) {
    for col in (0..cols).step_by(TILE) {
        let width = TILE.min(cols - col);
        for row in (0..rows).step_by(TILE) {
            let height = TILE.min(rows - row);
            let tile = simd.transpose(&load(words, row * cols + col, cols, width));
            for (i, from) in tile.iter().enumerate().take(width) {
                let start = (col + i) * rows + row;
                let Some(to) = out.get_mut(start..start + height) else { return };
                if let Ok(to) = <&mut [[u8; 4]; TILE]>::try_from(&mut *to) {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = from.to_le_bytes();
                    }
                } else {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = from.to_le_bytes();
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn awq_body<S: Simd>(simd: S, words: &[[u8; 4]], rows: usize, word_cols: usize, out: &mut [u8]) {
    let bytes = rows.div_ceil(2);
    let whole = rows - rows % PANEL;
    for col in (0..word_cols).step_by(TILE) {
        let width = TILE.min(word_cols - col);
        for row in (0..whole).step_by(PANEL) {
            let tiles = panel(simd, words, row, word_cols, col, width);
            for word_col in 0..width {
                for (column, lanes) in AWQ_COLUMNS.iter().zip(&transpose_nibbles(&tiles, word_col)) {
                    let start = ((col + word_col) * 8 + column) * bytes + row / 2;
                    let Some(out) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut) else { return };
                    *out = to_bytes(lanes);
                }
            }
        }
        if whole < rows {
            let tiles = panel(simd, words, whole, word_cols, col, width);
            for word_col in 0..width {
                for (column, lanes) in AWQ_COLUMNS.iter().zip(&transpose_nibbles(&tiles, word_col)) {
                    let start = ((col + word_col) * 8 + column) * bytes;
                    let Some(out) = out.get_mut(start + whole / 2..start + bytes) else { return };
                    for (to, from) in out.iter_mut().zip(to_bytes(lanes)) {
                        *to = from;
                    }
                }
            }
        }
    }
}

/// The words of up to 128 rows and sixteen columns: lane `l` of column `j` of tile `i` is row `8 l + i`.
#[inline(always)]
fn panel<S: Simd>(simd: S, words: &[[u8; 4]], row: usize, word_cols: usize, col: usize, width: usize) -> [Tile; 8] {
    let mut tiles = [[[0; TILE]; TILE]; 8];
    for (i, tile) in tiles.iter_mut().enumerate() {
        *tile = simd.transpose(&load(words, (row + i) * word_cols + col, 8 * word_cols, width));
    }
    tiles
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

/// Exchanges the upper fields of words with the lower fields of the words `D` further on.
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
