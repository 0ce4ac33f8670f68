//! Reading the scales and offsets of a tile as `f32`.

use std::ops::Range;

use anamnesis_kernels::Level;
use anamnesis_kernels::float::{bf16, f16};

use super::{Grouped, Offsets, Step};
use crate::error::Result;
use crate::scheme::coder::words::{get, place};
use crate::scheme::coder::{ScaleOp, Window};

/// The part index of the scales; the other companions follow, if they are stored.
const SCALES: usize = 1;

impl Grouped {
    /// The windows of scales, offsets, global scale and group index that these elements need.
    pub(super) fn companion_windows(&self, elements: &Range<u64>, windows: &mut Vec<Window>) {
        let span = self.span(elements);
        let mut part = SCALES;
        let mut push = |offset: u64, bytes: u64| {
            windows.push(Window::run(part, offset, bytes));
            part += 1;
        };
        let size = self.scales.kind.bytes();
        push(span.start * size, (span.end - span.start) * size);
        match self.offsets {
            Offsets::None | Offsets::Constant(_) => {}
            Offsets::Stored { kind, .. } | Offsets::Negated { kind } => {
                push(span.start * kind.bytes(), (span.end - span.start) * kind.bytes())
            }
            Offsets::PackedDown { bits, dense } => {
                let rows = self.packed_rows(&span, bits, dense);
                let row_bytes = self.grid.grid_cols * 4;
                push(rows.start * row_bytes, (rows.end - rows.start) * row_bytes);
            }
        }
        if let Some(global) = self.scales.global {
            match global.per_matrix {
                false => push(0, 4),
                true => {
                    let matrices = self.matrix_of(span.start)..self.matrix_of(span.end - 1) + 1;
                    push(matrices.start * 4, (matrices.end - matrices.start) * 4);
                }
            }
        }
        if self.is_indexed {
            push(0, self.grid.cols * 4);
        }
    }

    /// The scales that these elements need. With a group index, these are all scales of their rows.
    pub(super) fn span(&self, elements: &Range<u64>) -> Range<u64> {
        match self.is_indexed {
            false => self.grid.span(elements),
            true => {
                let rows = elements.start / self.grid.cols..elements.end.div_ceil(self.grid.cols);
                rows.start * self.grid.grid_cols..rows.end * self.grid.grid_cols
            }
        }
    }

    /// The matrix of a stack that a scale belongs to.
    fn matrix_of(&self, scale: u64) -> u64 {
        scale / self.grid.grid_cols / self.grid.grid_rows
    }

    /// The rows of words that contain the packed offsets of these scales.
    fn packed_rows(&self, span: &Range<u64>, bits: u8, dense: bool) -> Range<u64> {
        let rows = span.start / self.grid.grid_cols..span.end.div_ceil(self.grid.grid_cols);
        let (first, _) = self.packed_place(rows.start, bits, dense);
        let (last, shift) = self.packed_place(rows.end.saturating_sub(1).max(rows.start), bits, dense);
        first..last + if shift + u32::from(bits) > 32 { 2 } else { 1 }
    }

    /// The row of words and the bit at which the packed offset of a row of scales begins. Every matrix of a stack
    /// begins with a new word.
    fn packed_place(&self, row: u64, bits: u8, dense: bool) -> (u64, u32) {
        let (bits, rows) = (bits.max(1), self.grid.grid_rows);
        let (full, rest) = place(rows, bits, dense);
        let (word, shift) = place(row % rows, bits, dense);
        (row / rows * (full + u64::from(rest > 0)) + word, shift)
    }

    /// Fills in the scales and offsets of a span from their windows, which are removed from `inputs`.
    pub(super) fn companions(
        &self,
        level: Level,
        span: &Range<u64>,
        inputs: &mut &[&[u8]],
        scales: &mut [f32],
        offsets: &mut [f32],
    ) -> Result<()> {
        let mut next = || match *inputs {
            [first, rest @ ..] => {
                *inputs = rest;
                *first
            }
            [] => &[][..],
        };
        self.scales.kind.widen(level, next(), scales)?;
        match self.offsets {
            Offsets::None => {}
            Offsets::Constant(constant) => offsets.fill(constant.into()),
            Offsets::Stored { kind, plus } => {
                kind.widen(level, next(), offsets)?;
                if plus > 0 {
                    offsets.iter_mut().for_each(|offset| *offset += f32::from(plus));
                }
            }
            Offsets::Negated { kind } => {
                kind.widen(level, next(), offsets)?;
                offsets.iter_mut().for_each(|offset| *offset = -*offset);
            }
            Offsets::PackedDown { bits, dense } => self.unpack_down(span, bits, dense, next(), offsets),
        }
        if let Some(global) = self.scales.global {
            let values = next().as_chunks::<4>().0;
            let first = if global.per_matrix { self.matrix_of(span.start) } else { 0 };
            for (scale, at) in scales.iter_mut().zip(span.clone()) {
                let matrix = if global.per_matrix { self.matrix_of(at) - first } else { 0 };
                let value = values.get(matrix as usize).map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes));
                *scale = match global.op {
                    ScaleOp::Multiply => *scale * value,
                    ScaleOp::Divide => *scale / value,
                };
                *scale = match global.step {
                    Step::F32 => *scale,
                    Step::Bf16 => bf16::decode(bf16::encode(*scale)),
                    Step::F16 => f16::decode(f16::encode(*scale)),
                };
            }
        }
        Ok(())
    }

    fn unpack_down(&self, span: &Range<u64>, bits: u8, dense: bool, words: &[u8], offsets: &mut [f32]) {
        let cols = self.grid.grid_cols;
        let first = self.packed_rows(span, bits, dense).start;
        let words = words.as_chunks::<4>().0;
        for (offset, at) in offsets.iter_mut().zip(span.clone()) {
            let (row, col) = (at / cols, at % cols);
            let word = |row: u64| {
                words.get(((row - first) * cols + col) as usize).map_or(0, |bytes| u32::from_le_bytes(*bytes))
            };
            *offset = get(word, self.packed_place(row, bits, dense), bits.clamp(1, 8)).into();
        }
    }
}
