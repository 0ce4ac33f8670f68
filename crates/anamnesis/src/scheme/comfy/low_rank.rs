//! The parts of `svdquant_w4a4` around its codes.
//!
//! `value = (code * scale) * a + Σ up * down`, where `a = ((1 / smooth) / 7) * 7` per column: ComfyUI decodes by sending an
//! identity through the layer, whose activations are four-bit integers. The sum over the rank is in ascending order.
//!
//! In the tiled layout the codes of 128 rows by 64 columns are a tile of 32 by 128 bytes: four rows of 32 bytes each.

use std::ops::Range;

use anamnesis_kernels::products;

use crate::error::Result;
use crate::scheme::coder::{Context, Refine, Restore, ScaleType, TransposedPart, Window, filled, mishandled};

/// The largest four-bit activation.
const LARGEST_ACTIVATION: f32 = 7.0;

/// Scales the columns by the smooth factors and adds the low-rank product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LowRank {
    pub cols: u64,
    pub rank: u64,
    /// The parts of `proj_down`, `proj_up` and `smooth_factor`, with their types.
    pub down: (usize, ScaleType),
    pub up: (usize, ScaleType),
    pub smooth: (usize, ScaleType),
    /// Whether `proj_up` is stored transposed in tiles of 128 rows.
    pub is_tiled: bool,
}

impl LowRank {
    /// The tiles of `proj_up`, and the plain byte range of these rows.
    fn tiles(&self, rows: &Range<u64>) -> (TransposedPart, Range<u64>) {
        let (part, kind) = self.up;
        let row_bytes = self.rank * kind.bytes();
        let tiles = TransposedPart { part, rows: self.rank, cols: TILE_ROWS, each: kind.bytes() };
        (tiles, rows.start * row_bytes..rows.end * row_bytes)
    }
}

impl Refine for LowRank {
    fn windows(&self, rows: &Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::run(self.smooth.0, 0, self.cols * self.smooth.1.bytes()));
        windows.push(Window::run(self.down.0, 0, self.cols * self.rank * self.down.1.bytes()));
        let (tiles, range) = self.tiles(rows);
        match self.is_tiled {
            true => tiles.windows(&range, windows),
            false => windows.push(Window::between(self.up.0, range)),
        }
    }

    fn refine(&self, rows: &Range<u64>, inputs: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()> {
        let [smooth, down, ups @ ..] = inputs else { return Err(mishandled("fewer windows than it asked for")) };
        let level = context.level();
        let (cols, rank, count) = (self.cols as usize, self.rank as usize, (rows.end - rows.start) as usize);
        let mut factors = context.lend_floats(cols);
        self.smooth.1.widen(level, smooth, &mut factors)?;
        for factor in &mut factors {
            *factor = ((1.0 / *factor) / LARGEST_ACTIVATION) * LARGEST_ACTIVATION;
        }
        let mut up = context.lend_floats(count * rank);
        match self.is_tiled {
            false => self.up.1.widen(level, ups.first().copied().unwrap_or_default(), &mut up)?,
            true => {
                let (tiles, range) = self.tiles(rows);
                let mut plain = context.lend((range.end - range.start) as usize);
                tiles.restore(&range, ups, &mut plain, context)?;
                self.up.1.widen(level, &plain, &mut up)?;
                context.take_back(plain);
            }
        }
        let mut stored = context.lend_floats(cols * rank);
        self.down.1.widen(level, down, &mut stored)?;
        let mut transposed = context.lend_floats(cols * rank);
        for (col, entries) in stored.chunks_exact(rank.max(1)).enumerate() {
            for (of_rank, entry) in entries.iter().enumerate() {
                transposed[of_rank * cols + col] = *entry;
            }
        }
        let mut sums = context.lend_floats(values.len());
        filled(products(level, &up, rank, &transposed, cols, &mut sums), values.len())?;
        for (values, sums) in values.chunks_exact_mut(cols).zip(sums.chunks_exact(cols)) {
            for ((value, factor), sum) in values.iter_mut().zip(&factors).zip(sums) {
                *value = *value * factor + sum;
            }
        }
        for floats in [factors, up, stored, transposed, sums] {
            context.take_back_floats(floats);
        }
        Ok(())
    }
}

/// Rows and bytes of a row of codes in a tile, and bytes of a tile.
pub(super) const TILE_ROWS: u64 = 128;
const TILE_ROW_BYTES: u64 = 32;
const TILE_BYTES: u64 = TILE_ROWS * TILE_ROW_BYTES;

/// Codes in tiles, restored to rows of `row_bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CodeTiles {
    pub row_bytes: u64,
}

impl CodeTiles {
    /// The bytes of the tiles of 128 rows.
    fn strip_bytes(&self) -> u64 {
        self.row_bytes * TILE_ROWS
    }

    fn strips(&self, plain: &Range<u64>) -> Range<u64> {
        let strip = self.strip_bytes().max(1);
        plain.start / strip..plain.end.div_ceil(strip)
    }
}

impl Restore for CodeTiles {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let strips = self.strips(plain);
        windows.push(Window::between(0, strips.start * self.strip_bytes()..strips.end * self.strip_bytes()));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let first = self.strips(plain).start;
        let (mut at, mut rest) = (plain.start, out);
        while at < plain.end {
            let (row, byte) = (at / self.row_bytes, at % self.row_bytes);
            let count = (TILE_ROW_BYTES - byte % TILE_ROW_BYTES).min(plain.end - at) as usize;
            let tile = (row / TILE_ROWS - first) * self.strip_bytes() + byte / TILE_ROW_BYTES * TILE_BYTES;
            // A tile has 32 rows of bytes, and each holds four rows of codes: row `4 c + d` is bytes `32 d` of row `c`.
            let place = (tile + row % TILE_ROWS * TILE_ROW_BYTES + byte % TILE_ROW_BYTES) as usize;
            let (run, others) = rest.split_at_mut(count);
            run.copy_from_slice(stored.get(place..place + count).ok_or_else(|| mishandled("too few tiles"))?);
            rest = others;
            at += count as u64;
        }
        Ok(())
    }
}
