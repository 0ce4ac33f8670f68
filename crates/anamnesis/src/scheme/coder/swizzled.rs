//! Scales in the tiles of cuBLAS: one byte per scale, 128 rows by 4 columns in 512 bytes.
//!
//! The scale of row `r` and column `c` is byte `(r % 32) * 16 + (r % 128 / 32) * 4 + c % 4` of its tile; tiles follow
//! each other along the columns. Rows and columns are padded to whole tiles.

use std::ops::Range;

use super::context::Context;
use super::decoder::Window;
use super::filled::mishandled;
use super::restored::Restore;
use crate::error::Result;

/// Columns and bytes of a tile.
const COLS: u64 = 4;
const TILE_BYTES: u64 = Swizzled::ROWS * COLS;

/// A grid of `cols` scales per row that is stored in tiles, as this part of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Swizzled {
    pub(crate) part: usize,
    pub(crate) cols: u64,
}

impl Swizzled {
    /// Rows of a tile.
    pub(crate) const ROWS: u64 = 128;

    /// The stored rows and columns of a grid: whole tiles.
    pub(crate) fn padded(rows: u64, cols: u64) -> Option<[u64; 2]> {
        Some([rows.checked_next_multiple_of(Self::ROWS)?, cols.checked_next_multiple_of(COLS)?])
    }

    /// Whether a grid of this shape may be stored in tiles as well as row after row: its tiles are whole.
    pub(crate) fn may_hold(shape: &[usize]) -> bool {
        matches!(shape, [rows, cols] if (*rows as u64).is_multiple_of(Self::ROWS) && (*cols as u64).is_multiple_of(COLS))
    }

    /// The bytes of a row of tiles.
    fn row_bytes(&self) -> u64 {
        self.cols.div_ceil(COLS) * TILE_BYTES
    }

    /// The rows of tiles that hold a range of scales.
    fn tile_rows(&self, plain: &Range<u64>) -> Range<u64> {
        let row = |scale: u64| scale / self.cols.max(1) / Self::ROWS;
        row(plain.start)..row(plain.end.saturating_sub(1).max(plain.start)) + 1
    }

    /// The window of the rows of tiles that hold a range of scales.
    pub(crate) fn window(&self, plain: &Range<u64>) -> Window {
        let rows = self.tile_rows(plain);
        Window::between(self.part, rows.start * self.row_bytes()..rows.end * self.row_bytes())
    }

    /// Stores a range of whole rows of scales into the rows of tiles that hold it; padding is zero.
    pub(crate) fn store(&self, plain: &Range<u64>, scales: &[u8], tiles: &mut [u8]) -> Result<()> {
        let first = self.tile_rows(plain).start;
        tiles.fill(0);
        for (scale, at) in scales.iter().zip(plain.clone()) {
            let place = self.place(at) - first * self.row_bytes();
            *tiles.get_mut(place as usize).ok_or_else(|| mishandled("too few tiles"))? = *scale;
        }
        Ok(())
    }

    /// The byte of a scale.
    fn place(&self, at: u64) -> u64 {
        let (row, col) = (at / self.cols, at % self.cols);
        let tile = row / Self::ROWS * self.row_bytes() + col / COLS * TILE_BYTES;
        tile + row % 32 * 16 + row % Self::ROWS / 32 * COLS + col % COLS
    }
}

impl Restore for Swizzled {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        windows.push(self.window(plain));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [tiles] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let first = self.tile_rows(plain).start;
        let (mut at, mut rest) = (plain.start, out);
        while at < plain.end {
            let (row, col) = (at / self.cols, at % self.cols);
            let count = (self.cols - col).min(plain.end - at);
            let (row_out, others) = rest.split_at_mut(count as usize);
            rest = others;
            let start = (row / Self::ROWS - first) * self.row_bytes() + row % 32 * 16 + row % Self::ROWS / 32 * COLS;
            let stored = tiles.get(start as usize..).unwrap_or_default();
            for (out, col) in row_out.iter_mut().zip(col..) {
                let place = col / COLS * TILE_BYTES + col % COLS;
                *out = *stored.get(place as usize).ok_or_else(|| mishandled("too few tiles"))?;
            }
            at += count;
        }
        Ok(())
    }
}
