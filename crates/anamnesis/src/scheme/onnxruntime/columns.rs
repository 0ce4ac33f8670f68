//! The decoder of matrices that are stored as `[N, K]` in blocks along `K` and used as `[K, N]`: a tile is some rows of
//! the result, hence some columns of what is stored.

use std::ops::Range;

use anamnesis_kernels::chosen::{Packed, Rounded, high_nibbles, ruled_blocks, transpose_columns};
use anamnesis_kernels::{Arithmetic, Formula, Level, Step};

use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::bnb::{FP4_MAP, NF4_MAP};
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};
use crate::scheme::linear::Number;

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
/// Columns of the result that are decoded at a time and transposed, so that they stay in the cache.
const STRIP: usize = 64;

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
        let (level, to) = (context.level(), rounded(target));
        let rows = self.inputs(&elements);
        let &[codes, stored_scales, ref companions @ ..] = inputs else { return Err(mishandled("too few windows")) };
        let scale_count = stored_scales.len() / self.scales.bytes(1) as usize;
        let mut buffer = context.lend_floats(2 * scale_count);
        let (scales, zeros) = buffer.split_at_mut(scale_count);
        self.scales.widen(level, stored_scales, scales)?;
        let (n, height) = (self.n as usize, (rows.end - rows.start) as usize);
        let mut strip = context.lend(STRIP.min(n) * height * to.bytes());
        let mut transpose = |first: usize, count: usize, strip: &[u8]| {
            let elements = &strip[..count * height * to.bytes()];
            transpose_columns(level, to, elements, count, height, out, n, first)
        };
        let mut written = 0;
        match self.coding {
            Packing::Integers { bits, zeros: kind, is_indexed } => {
                let columns = IntegerColumns::new(self, bits, &rows, is_indexed);
                let operands = columns.operands(level, kind, companions, self.scales, (scales, zeros))?;
                filled(codes.len(), columns.column_bytes * n)?;
                for first in (0..n).step_by(STRIP) {
                    let count = STRIP.min(n - first);
                    columns.decode((level, to), codes, &operands, first..first + count, &mut strip)?;
                    written += transpose(first, count, &strip);
                }
            }
            Packing::Table(table) => {
                for first in (0..n).step_by(STRIP) {
                    let count = STRIP.min(n - first);
                    self.decode_table((level, to), table, (codes, scales), (&rows, first..first + count), &mut strip)?;
                    written += transpose(first, count, &strip);
                }
            }
        }
        context.take_back(strip);
        context.take_back_floats(buffer);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

impl Columns {
    /// Decodes some columns of the tile, one after another.
    fn decode_table(
        &self,
        (level, to): (Level, Rounded),
        table: Table,
        (codes, scales): (&[u8], &[f32]),
        (rows, columns): (&Range<u64>, Range<usize>),
        strip: &mut [u8],
    ) -> Result<()> {
        let map = match table {
            Table::Fp4 => &FP4_MAP,
            Table::Nf4 => &NF4_MAP,
        };
        // The windows are whole parts if rows share bytes or blocks.
        let (stride, first) = match self.has_whole_rows() {
            true => (rows.end - rows.start, 0),
            false => (self.k, rows.start),
        };
        let missing = || mishandled("a window of another size");
        let run = |at: u64, block: u64, out: &mut [u8]| {
            let codes = codes.get((at / 2) as usize..).ok_or_else(missing)?;
            let scales = scales.get((at / self.block) as usize..).ok_or_else(missing)?;
            filled(high_nibbles(level, to, codes, map, scales, block as usize, out), out.len())
        };
        let mut column_values = Vec::new();
        let height = (rows.end - rows.start) as usize * to.bytes();
        for (column, out) in columns.zip(strip.chunks_exact_mut(height.max(1))) {
            let start = column as u64 * stride + first;
            let in_block = start % self.block;
            if in_block == 0 {
                run(start, self.block, out)?;
                continue;
            }
            // The column starts inside a block, and perhaps inside a byte.
            let skipped = start % 2;
            column_values.resize(skipped as usize * to.bytes() + out.len(), 0);
            let in_first = self.block - in_block + skipped;
            let split = (in_first as usize).saturating_mul(to.bytes()).min(column_values.len());
            let (in_first_block, others) = column_values.split_at_mut(split);
            run(start - skipped, in_first, in_first_block)?;
            if !others.is_empty() {
                run(start - skipped + in_first, self.block, others)?;
            }
            out.copy_from_slice(&column_values[skipped as usize * to.bytes()..]);
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
    is_indexed: bool,
}

/// The scales and offsets of a tile of integers.
struct Operands<'a> {
    scales: &'a [f32],
    zeros: &'a [f32],
    rule: Arithmetic,
    /// The group of every row, if there is an index.
    groups: Vec<usize>,
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
            is_indexed,
        }
    }

    /// Fills in the zero point of every scale in the windows.
    fn zero_points(
        &self,
        level: Level,
        kind: ZeroPoints,
        companions: &[&[u8]],
        float: Number,
        zeros: &mut [f32],
    ) -> Result<()> {
        let stored = || companions.first().copied().ok_or_else(|| mishandled("too few windows"));
        match kind {
            ZeroPoints::Middle => zeros.fill((1u32 << (self.bits - 1)) as f32),
            ZeroPoints::Floats => float.widen(level, stored()?, zeros)?,
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

    /// The scales and offsets of all codes in the windows.
    fn operands<'a>(
        &self,
        level: Level,
        kind: ZeroPoints,
        companions: &[&[u8]],
        float: Number,
        (scales, zeros): (&'a mut [f32], &'a mut [f32]),
    ) -> Result<Operands<'a>> {
        self.zero_points(level, kind, companions, float, zeros)?;
        let is_affine = kind != ZeroPoints::Floats && !self.is_indexed;
        let formula = if is_affine { Formula::Affine } else { Formula::Biased };
        if !is_affine {
            // `code * scale - zero * scale`, with both products rounded.
            zeros.iter_mut().zip(&*scales).for_each(|(zero, scale)| *zero = -(*zero * scale));
        }
        let groups = match companions.last().filter(|_| self.is_indexed) {
            None => Vec::new(),
            Some(index) => index.as_chunks().0.iter().map(|bytes| self.group(*bytes)).collect::<Result<_>>()?,
        };
        Ok(Operands { scales, zeros, rule: Arithmetic { formula, step: Step::F32 }, groups })
    }

    /// Decodes some columns of the tile, one after another.
    fn decode(
        &self,
        (level, to): (Level, Rounded),
        codes: &[u8],
        operands: &Operands<'_>,
        columns: Range<usize>,
        strip: &mut [u8],
    ) -> Result<()> {
        let Operands { scales, zeros, rule, groups } = operands;
        let map = std::array::from_fn(|code| code as f32);
        let packing = match self.bits {
            2 => Packed::Bits2,
            4 => Packed::LowNibbles,
            _ => Packed::Bytes,
        };
        let run = |codes: &[u8], zeros: &[f32], scales: &[f32], block: usize, out: &mut [u8]| {
            filled(ruled_blocks(level, *rule, packing, to, codes, &map, zeros, scales, block, out), out.len())
        };
        let column_values = self.column_bytes * 8 / self.bits;
        if groups.is_empty() && column_values == self.rows {
            // Neither codes nor scales have gaps between columns.
            let (at, out) = (columns.start, &mut strip[..columns.len() * self.rows * to.bytes()]);
            let (zeros, scales) = (&zeros[at * self.scales..], &scales[at * self.scales..]);
            return run(&codes[at * self.column_bytes..], zeros, scales, self.block, out);
        }
        let mut gathered = vec![0.0; 2 * groups.len()];
        for (column, out) in columns.zip(strip.chunks_exact_mut((self.rows * to.bytes()).max(1))) {
            let codes = &codes[column * self.column_bytes..];
            let (zeros, scales) = (&zeros[column * self.scales..], &scales[column * self.scales..]);
            if groups.is_empty() {
                run(codes, zeros, scales, self.block, out)?;
                continue;
            }
            let (zeros_of_rows, scales_of_rows) = gathered.split_at_mut(groups.len());
            for ((zero, scale), group) in zeros_of_rows.iter_mut().zip(&mut *scales_of_rows).zip(groups) {
                (*zero, *scale) = (zeros[*group], scales[*group]);
            }
            run(codes, zeros_of_rows, scales_of_rows, 1, out)?;
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
