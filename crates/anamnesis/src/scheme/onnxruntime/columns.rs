//! The decoder of matrices that are stored as `[N, K]` in blocks along `K` and used as `[K, N]`: a tile is some rows of
//! the result, hence some columns of what is stored.

use std::ops::Range;

use anamnesis_kernels::canonical_nans;
use anamnesis_kernels::chosen::round_slice;

use super::number::Number;
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::bnb::{FP4_MAP, NF4_MAP};
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// A matrix of codes. Its parts are, in this order: codes, scales, zero points if there are any, the group index if there
/// is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Columns {
    /// Inputs: rows of the result.
    pub(super) k: u64,
    /// Outputs: columns of the result.
    pub(super) n: u64,
    pub(super) block: u64,
    pub(super) scales: Number,
    pub(super) coding: Packing,
    pub(super) description: String,
}

/// The packing of codes, and their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Packing {
    /// Integers of these bits, the lowest bits of a byte first; each row of blocks is padded to whole blocks.
    Integers { bits: u64, zeros: ZeroPoints, is_indexed: bool },
    /// Entries of a table, the high half of a byte first; blocks and bytes run over the ends of rows.
    Table(Table),
}

/// The zero points of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ZeroPoints {
    /// Half of the codes.
    Middle,
    /// Packed like the codes, each row from a new byte on.
    Packed,
    /// Stored like the scales.
    Floats,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Fp4,
    Nf4,
}

/// The preferred output bytes of a tile: stored columns are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 4 << 20;
/// Columns of the result that are computed at a time, so that their pieces of rows stay in the cache.
const STRIP: usize = 16;

impl Columns {
    /// Blocks of a row of integers.
    fn blocks(&self) -> u64 {
        self.k.div_ceil(self.block.max(1))
    }

    /// Whether rows begin new bytes and blocks, so that columns can be read.
    fn has_whole_rows(&self) -> bool {
        self.k.is_multiple_of(self.block.max(1)) && self.k.is_multiple_of(2)
    }

    fn inputs(&self, elements: &Range<u64>) -> Range<u64> {
        elements.start / self.n.max(1)..elements.end / self.n.max(1)
    }

    /// The blocks of a row that these inputs are in.
    fn block_range(&self, inputs: &Range<u64>) -> Range<u64> {
        inputs.start / self.block..inputs.end.div_ceil(self.block)
    }

    /// The bytes of a row of packed zero points for these blocks.
    fn zero_bytes(&self, bits: u64, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * bits / 8..(blocks.end * bits).div_ceil(8)
    }
}

impl TileDecoder for Columns {
    fn granule(&self) -> u64 {
        let rows = match self.coding {
            Packing::Integers { .. } => self.block,
            // A multiple of both halves of a byte.
            Packing::Table(_) => self.block.max(2),
        };
        (rows * self.n).max(1)
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (inputs, size) = (self.inputs(&elements), self.scales.bytes(1));
        let columns = |part: usize, bytes: Range<u64>, stride: u64| {
            Window::columns(part, bytes.start, bytes.end - bytes.start, stride, self.n)
        };
        match self.coding {
            Packing::Integers { bits, zeros, is_indexed } => {
                let (blocks, all) = (self.block_range(&inputs), self.blocks());
                let block_bytes = self.block * bits / 8;
                windows.push(columns(0, blocks.start * block_bytes..blocks.end * block_bytes, all * block_bytes));
                let read = if is_indexed { 0..all } else { blocks };
                windows.push(columns(1, read.start * size..read.end * size, all * size));
                match zeros {
                    ZeroPoints::Middle => {}
                    ZeroPoints::Packed => {
                        windows.push(columns(2, self.zero_bytes(bits, &read), (all * bits).div_ceil(8)));
                    }
                    ZeroPoints::Floats => windows.push(columns(2, read.start * size..read.end * size, all * size)),
                }
                if is_indexed {
                    let part = if zeros == ZeroPoints::Middle { 2 } else { 3 };
                    windows.push(Window::between(part, inputs.start * 4..inputs.end * 4));
                }
            }
            Packing::Table(_) if self.has_whole_rows() => {
                let blocks = self.block_range(&inputs);
                windows.push(columns(0, inputs.start / 2..inputs.end.div_ceil(2), self.k / 2));
                windows.push(columns(1, blocks.start * size..blocks.end * size, self.blocks() * size));
            }
            Packing::Table(_) => {
                let total = self.k * self.n;
                windows.push(Window::run(0, 0, total.div_ceil(2)));
                windows.push(Window::run(1, 0, total.div_ceil(self.block) * size));
            }
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let rows = self.inputs(&elements);
        let &[codes, stored_scales, ref companions @ ..] = inputs else { return Err(mishandled("too few windows")) };
        let scale_count = stored_scales.len() / self.scales.bytes(1) as usize;
        let count = (elements.end - elements.start) as usize;
        let mut buffer = context.lend_floats(count + 2 * scale_count);
        let (values, floats) = buffer.split_at_mut(count);
        let (scales, zeros) = floats.split_at_mut(scale_count);
        self.scales.widen(stored_scales, scales)?;
        filled(canonical_nans(level, scales), scale_count)?;
        match self.coding {
            Packing::Integers { bits, zeros: kind, is_indexed } => {
                let columns = IntegerColumns::new(self, bits, &rows, is_indexed);
                columns.zero_points(kind, companions, self.scales, zeros)?;
                filled(canonical_nans(level, zeros), scale_count)?;
                let index = if is_indexed { companions.last().copied() } else { None };
                let is_affine = kind != ZeroPoints::Floats && !is_indexed;
                columns.decode(codes, scales, zeros, is_affine, index, values)?;
            }
            Packing::Table(table) => self.decode_table(table, codes, scales, &rows, values)?,
        }
        let written = round_slice(level, rounded(target), values, out);
        context.take_back_floats(buffer);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

impl Columns {
    fn decode_table(
        &self,
        table: Table,
        codes: &[u8],
        scales: &[f32],
        rows: &Range<u64>,
        values: &mut [f32],
    ) -> Result<()> {
        let map = match table {
            Table::Fp4 => &FP4_MAP,
            Table::Nf4 => &NF4_MAP,
        };
        let is_whole = self.has_whole_rows();
        let (width, blocks) = ((rows.end - rows.start).div_ceil(2), self.block_range(rows));
        let missing = || mishandled("a window of another size");
        for column in 0..self.n {
            for row in rows.clone() {
                // The places in the windows, which are whole parts if rows share bytes or blocks.
                let flat = column * self.k + row;
                let (byte, scale) = match is_whole {
                    true => {
                        let of_row = column * (blocks.end - blocks.start);
                        (column * width + (row - rows.start) / 2, of_row + row / self.block - blocks.start)
                    }
                    false => (flat / 2, flat / self.block),
                };
                let byte = *codes.get(byte as usize).ok_or_else(missing)?;
                let code = if flat.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
                let value = map[usize::from(code)] * scales.get(scale as usize).ok_or_else(missing)?;
                let place = ((row - rows.start) * self.n + column) as usize;
                *values.get_mut(place).ok_or_else(missing)? = value;
            }
        }
        Ok(())
    }
}

/// The geometry of a tile of integers.
struct IntegerColumns {
    bits: usize,
    block: usize,
    n: usize,
    /// The rows of the tile.
    rows: usize,
    /// Scales per column in the windows, and the first of them.
    scales: usize,
    first_block: u64,
    /// Bytes of codes per column in the window.
    column_bytes: usize,
}

impl IntegerColumns {
    fn new(columns: &Columns, bits: u64, rows: &Range<u64>, is_indexed: bool) -> Self {
        let blocks = columns.block_range(rows);
        let read = if is_indexed { 0..columns.blocks() } else { blocks.clone() };
        Self {
            bits: bits as usize,
            block: columns.block as usize,
            n: columns.n as usize,
            rows: (rows.end - rows.start) as usize,
            scales: (read.end - read.start) as usize,
            first_block: read.start,
            column_bytes: ((blocks.end - blocks.start) * columns.block * bits / 8) as usize,
        }
    }

    /// Fills in the zero point of every scale in the windows.
    fn zero_points(&self, kind: ZeroPoints, companions: &[&[u8]], float: Number, zeros: &mut [f32]) -> Result<()> {
        let stored = || companions.first().copied().ok_or_else(|| mishandled("too few windows"));
        match kind {
            ZeroPoints::Middle => zeros.fill((1u32 << (self.bits - 1)) as f32),
            ZeroPoints::Floats => float.widen(stored()?, zeros)?,
            ZeroPoints::Packed => {
                let (stored, bits) = (stored()?, self.bits as u64);
                // A row of the window begins with the byte of its first zero point.
                let first_bit = self.first_block * bits % 8;
                let row_bytes = (first_bit + self.scales as u64 * bits).div_ceil(8) as usize;
                filled(stored.len(), row_bytes * self.n)?;
                let rows = stored.chunks_exact(row_bytes.max(1));
                for (row, zeros) in rows.zip(zeros.chunks_exact_mut(self.scales.max(1))) {
                    for (zero, bit) in zeros.iter_mut().zip((first_bit as usize..).step_by(self.bits)) {
                        *zero = (u32::from(row[bit / 8]) >> (bit % 8) & ((1 << self.bits) - 1)) as f32;
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes `(code - zero) * scale`, or `code * scale - zero * scale` with both products rounded.
    fn decode(
        &self,
        codes: &[u8],
        scales: &[f32],
        zeros: &[f32],
        is_affine: bool,
        index: Option<&[u8]>,
        values: &mut [f32],
    ) -> Result<()> {
        let Self { bits, block, n, rows, .. } = *self;
        filled(codes.len(), self.column_bytes * n)?;
        let groups = match index {
            None => Vec::new(),
            Some(index) => index.as_chunks().0.iter().map(|bytes| self.group(*bytes)).collect::<Result<Vec<_>>>()?,
        };
        let mask = (1u32 << bits) - 1;
        for first in (0..n).step_by(STRIP) {
            let strip = first..n.min(first + STRIP);
            for row in 0..rows {
                let (byte, shift) = (row * bits / 8, row * bits % 8);
                let group = groups.get(row).copied().unwrap_or(row / block);
                let out = &mut values[row * n..][strip.clone()];
                for (value, column) in out.iter_mut().zip(strip.clone()) {
                    let code = (u32::from(codes[column * self.column_bytes + byte]) >> shift & mask) as f32;
                    let place = column * self.scales + group;
                    let (scale, zero) = (scales[place], zeros[place]);
                    *value = match is_affine {
                        true => (code - zero) * scale,
                        false => code * scale + -(zero * scale),
                    };
                }
            }
        }
        Ok(())
    }

    /// An entry of the group index, which must be a group.
    fn group(&self, bytes: [u8; 4]) -> Result<usize> {
        let index = i32::from_le_bytes(bytes);
        usize::try_from(index).ok().filter(|group| *group < self.scales).ok_or_else(|| {
            AnamnesisError::parse(format!("its group index has the entry {index}, there are {} groups", self.scales))
        })
    }
}
