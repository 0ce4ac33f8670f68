//! Decoding tiles of group-wise quantised matrices.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{self as kernels, Packed, Rounded};
use anamnesis_kernels::{Level, canonical_nans};

use super::{Arithmetic, Formula, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{
    CodeOrder, Codes, Context, FourBitFloats, GgmlBlocks, Grid, Integers, LibraryArithmetic, OffsetLayout, ScaleOp,
    ScaleType, TileDecoder, ToGgmlBlocks, Window, filled, rounded, row_granule,
};

/// The codes of a tile, and the operands of their arithmetic.
struct Tile<'a> {
    elements: Range<u64>,
    codes: &'a [u8],
    map: [f32; 16],
    scales: &'a [f32],
    offsets: &'a [f32],
    index: &'a [u32],
}

impl Grouped {
    /// Whether tiles may end inside a row: at a cut, a code must begin a byte, and so must every group.
    fn may_cut_rows(&self) -> bool {
        let (cols, unit) = (self.grid.cols, self.layout.unit());
        let starts_bytes = self.grid.grid_cols == 1 || self.is_indexed || self.grid.block_cols.is_multiple_of(unit);
        let is_free = match self.layout {
            Layout::RowPairs => self.grid.block_cols == 1,
            _ => self.needs_unpacking(),
        };
        row_granule(cols) < cols && cols.is_multiple_of(unit) && (starts_bytes || is_free)
    }

    /// Whether codes are unpacked to bytes before the kernel, because no kernel reads this layout.
    fn needs_unpacking(&self) -> bool {
        !matches!(self.layout, Layout::Dense { bits: 2 | 3 | 4 | 8, .. } | Layout::HighNibbles)
    }

    /// Whether every column has its own scale; the kernel for that is faster than blocks of one element.
    fn is_per_element(&self) -> bool {
        let is_per_column = self.grid.block_cols == 1 && self.grid.grid_cols > 1;
        is_per_column && self.arithmetic == Arithmetic::default() && self.meaning == Meaning::Unsigned
    }

    fn run(&self, level: Level, packing: Packed, to: Rounded, tile: &Tile<'_>, out: &mut [u8]) -> usize {
        let grid = &self.grid;
        let Range { start, end } = tile.elements;
        let (cols, block_cols, grid_cols) = (grid.cols, grid.block_cols, grid.grid_cols);
        let first_scale = self.span(&tile.elements).start;
        let is_gapless = self.layout.is_gapless(cols) || (self.needs_unpacking() && self.layout != Layout::RowPairs);
        // If neither codes nor groups have gaps between rows, the rows of a tile are decoded as one long row.
        let is_one_row = is_gapless && grid.block_rows == 1 && cols.is_multiple_of(block_cols) && !self.is_indexed;
        let (mut at, mut written) = (start, 0);
        while at < end {
            let (row, col) = (at / cols, at % cols);
            let left = end - at;
            let whole_rows = if col == 0 { left / cols } else { 0 };
            let (scale, count, block) = match whole_rows {
                _ if self.is_indexed => (row * grid_cols, left.min(cols - col), block_cols),
                rows if rows > 0 && is_one_row => (grid.scale_row(row) * grid_cols, rows * cols, block_cols),
                rows if rows > 0 && grid_cols == 1 && is_gapless => {
                    let count = rows.min(grid.rows_left_in_block(row)) * cols;
                    (grid.scale_row(row), count, count)
                }
                _ => {
                    let inside = if col % block_cols == 0 { cols } else { block_cols - col % block_cols };
                    let scale = grid.scale_row(row) * grid_cols + col / block_cols;
                    (scale, left.min(cols - col).min(inside), block_cols)
                }
            };
            let from = match self.needs_unpacking() {
                true if self.layout == Layout::RowPairs => {
                    let row_start = start.max(row * cols);
                    row_start - start + (at - row_start) / 2
                }
                true => at - start,
                false => self.layout.byte_of(cols, at) - self.layout.byte_of(cols, start),
            };
            let packed = tile.codes.get(from as usize..).unwrap_or_default();
            let out = &mut out[(at - start) as usize * to.bytes()..(at - start + count) as usize * to.bytes()];
            let scales = &tile.scales[(scale - first_scale) as usize..];
            let offsets = tile.offsets.get((scale - first_scale) as usize..).unwrap_or_default();
            written += if self.is_indexed {
                let index = &tile.index[col as usize..(col + count) as usize];
                let of_row = ..grid_cols as usize;
                let (offsets, scales) = (offsets.get(of_row).unwrap_or_default(), &scales[of_row]);
                kernels::coded_indexed(level, packing, to, packed, index, offsets, scales, out)
            } else if self.is_per_element() {
                kernels::affine_codes(level, packing, to, packed, offsets, scales, out)
            } else {
                let (rule, map, block) = (self.arithmetic, &tile.map, block as usize);
                kernels::ruled_blocks(level, rule, packing, to, packed, map, offsets, scales, block, out)
            };
            at += count;
        }
        written
    }

    fn decode_tile(
        &self,
        to: Rounded,
        elements: Range<u64>,
        mut inputs: &[&[u8]],
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let span = self.span(&elements);
        let (count, scales) = ((elements.end - elements.start) as usize, (span.end - span.start) as usize);
        let offsets = if self.offsets == Offsets::None { 0 } else { scales };
        let index = if self.is_indexed { self.grid.cols as usize } else { 0 };
        let unpacked = if self.needs_unpacking() { count } else { 0 };
        let (floats, bytes, index) = context.scratch(scales + offsets, unpacked, index);
        let (scales, offsets) = floats.split_at_mut(scales);
        let codes = if self.needs_unpacking() {
            self.layout.unpack(level, self.grid.cols, &elements, &mut inputs, bytes)?;
            &*bytes
        } else {
            let (codes, rest) = inputs.split_first().map_or((&[][..], inputs), |(codes, rest)| (*codes, rest));
            inputs = rest;
            codes
        };
        self.companions(level, &span, &mut inputs, scales, offsets)?;
        if self.is_per_element() {
            for operands in [&mut *scales, &mut *offsets] {
                filled(canonical_nans(level, operands), operands.len())?;
            }
        }
        if let Some(stored) = inputs.first() {
            filled(stored.len() / 4, index.len())?;
            for (to, from) in index.iter_mut().zip(stored.as_chunks::<4>().0) {
                *to = u32::from_le_bytes(*from);
            }
        }
        let tile = Tile { elements, codes, map: self.meaning.map(), scales, offsets, index };
        let packing = match (self.needs_unpacking(), self.layout.bits()) {
            _ if self.meaning == Meaning::Signed => Packed::SignedBytes,
            _ if self.layout == Layout::HighNibbles => Packed::HighNibbles,
            (false, 2) => Packed::Bits2,
            (false, 3) => Packed::Bits3,
            _ if self.layout == Layout::RowPairs => Packed::LowNibbles,
            (false, 4) => Packed::LowNibbles,
            _ => Packed::Bytes,
        };
        Ok(self.run(level, packing, to, &tile, out))
    }

    /// The codes and scales as ggml blocks of four-bit floats, if they fit.
    fn blocks(&self) -> Option<GgmlBlocks> {
        let is_plain = self.offsets == Offsets::None && !self.is_indexed && self.arithmetic == Arithmetic::default();
        let is_float = matches!(self.meaning, Meaning::E2m1 | Meaning::E2m1NoMinusZero);
        let (kind, values) = match (self.scales.kind, self.grid.block_cols) {
            (ScaleType::E8m0 | ScaleType::Exponent, 32) if self.scales.global.is_none() => (FourBitFloats::Mxfp4, 32),
            (ScaleType::E4m3, 16) => (FourBitFloats::Nvfp4, 64),
            _ => return None,
        };
        let cols = self.grid.cols;
        let is_low_first = self.layout != Layout::HighNibbles;
        let is_gapless = self.layout.is_gapless(cols) && self.grid.block_rows == 1 && cols.is_multiple_of(values);
        let is_gapless = is_gapless && is_low_first;
        // Codes and scales are parts 0 and 1, and the global scale is part 2.
        (is_plain && is_float && is_gapless).then(|| GgmlBlocks {
            block: kind.block(),
            bytes: Arc::new(ToGgmlBlocks { kind }),
            global: self.scales.global.map(|global| match global.op {
                ScaleOp::Multiply => (2, ScaleOp::Multiply),
                ScaleOp::Divide => (2, ScaleOp::Divide),
            }),
            is_transposed: false,
        })
    }

    /// The codes as integers that other schemes pack too, if they are.
    fn integers(&self) -> Option<Integers> {
        let bits = self.layout.bits();
        let middle = 1u8.checked_shl(u32::from(bits).saturating_sub(1))?;
        let offsets = match (self.arithmetic.formula, self.offsets) {
            (Formula::Biased, Offsets::Stored { kind, plus: 0 }) if kind == self.scales.kind => OffsetLayout::Biases,
            (Formula::Affine, Offsets::Constant(zero)) => OffsetLayout::Constant(zero),
            (Formula::Affine, Offsets::Stored { kind: ScaleType::I8, plus }) if plus == middle => OffsetLayout::Bytes,
            (Formula::Affine, Offsets::PackedDown { bits: packed, dense }) if packed == bits => {
                OffsetLayout::Down { dense }
            }
            _ => return None,
        };
        let Grid { rows, cols, block_rows, block_cols, .. } = self.grid;
        let is_plain = self.meaning == Meaning::Unsigned && !self.is_indexed && self.scales.global.is_none();
        let is_plain = is_plain && self.arithmetic.step == Step::F32 && block_rows == 1;
        let integers =
            Integers { bits, rows, cols, group: block_cols, words: CodeOrder::Rows, scale: self.scales.kind, offsets };
        let is_low_first = self.layout != Layout::HighNibbles;
        (is_plain && is_low_first && self.layout.is_gapless(cols)).then_some(integers)?.checked()
    }
}

impl TileDecoder for Grouped {
    fn granule(&self) -> u64 {
        match self.may_cut_rows() {
            true => row_granule(self.grid.cols) * self.layout.unit(),
            false => self.grid.cols.max(1),
        }
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.layout.windows(self.grid.cols, &elements, windows);
        self.companion_windows(&elements, windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        if inputs.first().is_some_and(|codes| self.layout.has_spare_bits(self.grid.cols, &elements, codes)) {
            let bits = self.layout.bits();
            let why = format!("padding bits of {bits}-bit codes are set: the codes have another number of bits");
            return Err(AnamnesisError::parse(why));
        }
        self.decode_tile(rounded(target), elements, inputs, out, context)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn codes(&self) -> Codes {
        let blocks = self.blocks().map(Codes::Blocks);
        blocks.or_else(|| self.integers().map(Codes::Integers)).unwrap_or(Codes::Own)
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        let step = match (self.scales.kind, self.scales.global) {
            (ScaleType::Bf16, _) => Step::Bf16,
            (ScaleType::F16, _) => Step::F16,
            (_, Some(GlobalScale { op: ScaleOp::Divide, library: Step::F32, .. })) => {
                return LibraryArithmetic::RoundedTo(TargetDtype::BF16);
            }
            (_, Some(GlobalScale { op: ScaleOp::Divide, library, .. })) => library,
            _ => return LibraryArithmetic::Same,
        };
        let global = self.scales.global.map(|global| GlobalScale { step: global.library, ..global });
        // The difference of a code and an integer zero point is exact in every type, so only the product is rounded.
        match self.is_indexed {
            true => LibraryArithmetic::in_type_of(Some(self.scales.kind)),
            false => LibraryArithmetic::Decoder(Arc::new(Self {
                arithmetic: Arithmetic { step, ..self.arithmetic },
                scales: Scales { global, ..self.scales },
                ..self.clone()
            })),
        }
    }
}
