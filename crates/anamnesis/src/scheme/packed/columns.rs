//! Decoding to `[out, in]`: a tile is a strip of columns of the stored matrix, transposed to rows.

use std::ops::Range;

use anamnesis_kernels::chosen::{self, Packed, Rounded};
use anamnesis_kernels::{self as kernels, Level};

use super::{Grouping, PackedMatrix, Words, ZeroPoints, planar};
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{
    CodeOrder, Codes, Context, Integers, LibraryArithmetic, OffsetLayout, TileDecoder, Window, filled, rounded,
};

/// The columns at whose multiples tiles may be cut: 32 codes of any width fill whole words.
const STRIP: u64 = 32;
/// Output bytes per tile. Stored rows are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 2 << 20;

/// The value of each code before its zero point and scale.
const MAP: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// A four-bit code as an integer in two's complement.
fn signed(code: f32) -> f32 {
    if code < 8.0 { code } else { code - 16.0 }
}

/// The parts of a weight, in the order in which the decoder reads them.
const CODES: usize = 0;
const ZEROS: usize = 1;
const SCALES: usize = 2;
const GROUP_INDEX: usize = 3;

/// How the library that wrote a weight interprets codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// Codes and zero points are unsigned, and the library calculates in the type of the scales.
    Default,
    /// Both may be in two's complement, and the library calculates in F32.
    Quark { is_signed: bool },
}

/// Decodes a packed matrix and transposes it.
#[derive(Debug, Clone, Hash)]
pub(crate) struct ColumnDecoder {
    pub matrix: PackedMatrix,
    /// Whether codes and zero points are packed in bit planes.
    pub is_planar: bool,
    pub dialect: Dialect,
    pub description: String,
}

impl ColumnDecoder {
    fn is_signed(&self) -> bool {
        self.dialect == Dialect::Quark { is_signed: true }
    }

    /// The output rows of a tile, which are columns of the stored matrix.
    fn columns(&self, elements: &Range<u64>) -> Range<u64> {
        elements.start / self.matrix.inputs..elements.end / self.matrix.inputs
    }

    /// Unpacks zero points and scales and transposes them, so that all groups of a column are contiguous.
    fn transpose_groups(
        &self,
        level: Level,
        columns: usize,
        inputs: &[&[u8]],
        zeros: &mut [f32],
        scales: &mut [f32],
        scratch: Rows<'_>,
    ) -> Result<()> {
        let PackedMatrix { words, scale, .. } = self.matrix;
        let groups = self.matrix.groups as usize;
        let zero_row_bytes = columns * words.bits() as usize / 8;
        let scale_row_bytes = columns * scale.bytes() as usize;
        for group in 0..groups {
            let packed = &inputs[ZEROS][group * zero_row_bytes..(group + 1) * zero_row_bytes];
            match words {
                Words::Gptq(bits) if self.is_planar => filled(planar::unpack(bits, packed, scratch.zeros), columns)?,
                words => self.matrix.zeros.unpack(level, words, packed, scratch.words, scratch.zeros)?,
            }
            if self.is_signed() {
                scratch.zeros.iter_mut().for_each(|zero| *zero = signed(*zero));
            }
            scale.widen(
                level,
                &inputs[SCALES][group * scale_row_bytes..(group + 1) * scale_row_bytes],
                scratch.scales,
            )?;
            for column in 0..columns {
                zeros[column * groups + group] = scratch.zeros[column];
                scales[column * groups + group] = scratch.scales[column];
            }
        }
        Ok(())
    }

    fn run(
        &self,
        to: Rounded,
        columns: usize,
        inputs: &[&[u8]],
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let PackedMatrix { words, inputs: in_features, .. } = self.matrix;
        let (groups, in_features, bits) = (self.matrix.groups as usize, in_features as usize, words.bits() as usize);
        let row_bytes = (in_features * bits).div_ceil(8);
        let indices = if self.matrix.grouping == Grouping::Indexed { in_features } else { 0 };
        let unpacked = if self.is_planar { in_features } else { 0 };
        let bytes = columns * (row_bytes + bits) + unpacked;
        let (floats, bytes, indices) = context.scratch(2 * columns * (groups + 1), bytes, indices);
        let (codes, bytes) = bytes.split_at_mut(unpacked);
        let (zeros, floats) = floats.split_at_mut(columns * groups);
        let (scales, floats) = floats.split_at_mut(columns * groups);
        let (zero_row, scale_row) = floats.split_at_mut(columns);
        let (transposed, zero_words) = bytes.split_at_mut(columns * row_bytes);
        self.transpose_groups(
            level,
            columns,
            inputs,
            zeros,
            scales,
            Rows { zeros: zero_row, scales: scale_row, words: zero_words },
        )?;
        let count = match words {
            Words::Gptq(_) => {
                kernels::transpose_words(level, inputs[CODES], in_features * bits / 32, columns, transposed)
            }
            Words::Awq => kernels::transpose_awq(level, inputs[CODES], in_features, columns / 8, transposed),
        };
        filled(count, transposed.len())?;
        if let Some(stored) = inputs.get(GROUP_INDEX) {
            filled(stored.len() / 4, indices.len())?;
            for (to, from) in indices.iter_mut().zip(stored.as_chunks::<4>().0) {
                *to = u32::from_le_bytes(*from);
            }
        }
        let mut written = 0;
        let rows = transposed.chunks_exact(row_bytes).zip(out.chunks_exact_mut(in_features * to.bytes()));
        for (column, (packed, out)) in rows.enumerate() {
            let of_column = column * groups..(column + 1) * groups;
            let (zeros, scales) = (&zeros[of_column.clone()], &scales[of_column]);
            let packed = match words {
                Words::Gptq(bits) if self.is_planar => {
                    filled(planar::unpack_bytes(bits, packed, codes), codes.len())?;
                    (Packed::Bytes, &*codes)
                }
                Words::Gptq(2) => (Packed::Bits2, packed),
                Words::Gptq(3) => (Packed::Bits3, packed),
                Words::Gptq(4) | Words::Awq => (Packed::LowNibbles, packed),
                Words::Gptq(_) => (Packed::Bytes, packed),
            };
            written += self.row(level, to, packed, indices, (zeros, scales), out);
        }
        Ok(written)
    }

    /// Decodes one output row from its transposed codes.
    fn row(
        &self,
        level: Level,
        to: Rounded,
        (packing, packed): (Packed, &[u8]),
        indices: &[u32],
        (zeros, scales): (&[f32], &[f32]),
        out: &mut [u8],
    ) -> usize {
        match self.matrix.grouping {
            Grouping::Runs(run) => {
                let map = if self.is_signed() { MAP.map(signed) } else { MAP };
                chosen::coded_blocks(level, packing, to, packed, &map, zeros, scales, run as usize, out)
            }
            Grouping::Indexed => chosen::coded_indexed(level, packing, to, packed, indices, zeros, scales, out),
        }
    }

    /// The codes as integers that other schemes pack too, if they are.
    fn integers(&self) -> Option<Integers> {
        let PackedMatrix { words, inputs, outputs, groups, grouping, zeros, scale } = self.matrix;
        let (words, bits) = match words {
            Words::Gptq(bits) => (CodeOrder::Columns, bits),
            Words::Awq => (CodeOrder::Awq, 4),
        };
        let Grouping::Runs(run) = grouping else { return None };
        let minus_one = match zeros {
            ZeroPoints::Stored => false,
            ZeroPoints::PlusOne => true,
            ZeroPoints::PlusOneUnbounded => return None,
        };
        let (group, offsets) = (run.min(inputs), OffsetLayout::Along { minus_one });
        let integers = Integers { bits, rows: outputs, cols: inputs, group, words, scale, offsets };
        let is_default = !self.is_planar && self.dialect == Dialect::Default;
        integers.checked().filter(|integers| is_default && integers.groups() == groups)
    }
}

/// Scratch space for one row of zero points and scales before it is transposed.
struct Rows<'a> {
    zeros: &'a mut [f32],
    scales: &'a mut [f32],
    words: &'a mut [u8],
}

impl TileDecoder for ColumnDecoder {
    fn granule(&self) -> u64 {
        STRIP * self.matrix.inputs
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let PackedMatrix { words, inputs, outputs, groups, scale, .. } = self.matrix;
        let columns = self.columns(&elements);
        let count = columns.end - columns.start;
        let zero_bytes = |columns: u64| columns * words.bits() / 8;
        windows.push(match words {
            Words::Gptq(bits) => {
                Window::columns(CODES, columns.start * 4, count * 4, outputs * 4, inputs * u64::from(bits) / 32)
            }
            Words::Awq => Window::columns(CODES, columns.start / 2, count / 2, outputs / 2, inputs),
        });
        windows.push(Window::columns(ZEROS, zero_bytes(columns.start), zero_bytes(count), zero_bytes(outputs), groups));
        let size = scale.bytes();
        windows.push(Window::columns(SCALES, columns.start * size, count * size, outputs * size, groups));
        if self.matrix.grouping == Grouping::Indexed {
            windows.push(Window::run(GROUP_INDEX, 0, inputs * 4));
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
        let columns = self.columns(&elements);
        self.run(rounded(target), (columns.end - columns.start) as usize, inputs, out, context)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn codes(&self) -> Codes {
        self.integers().map_or(Codes::Own, Codes::Integers)
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        match self.dialect {
            Dialect::Default => LibraryArithmetic::in_type_of(Some(self.matrix.scale)),
            Dialect::Quark { .. } => LibraryArithmetic::Same,
        }
    }
}
