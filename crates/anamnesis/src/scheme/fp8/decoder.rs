//! Decoding tiles of an FP8 weight.

use std::ops::Range;

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{self as kernels, Float8, Rounded};

use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{
    Arrangement, Context, Grid, LibraryArithmetic, ScaleType, TileDecoder, Window, mishandled, rounded, row_granule,
};

/// The eight-bit float formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fp8Format {
    E4m3,
    E5m2,
    E4m3Fnuz,
    E5m2Fnuz,
    E8m0,
}

impl Fp8Format {
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F8E4M3 => Self::E4m3,
            Dtype::F8E5M2 => Self::E5m2,
            Dtype::F8E4M3Fnuz => Self::E4m3Fnuz,
            Dtype::F8E5M2Fnuz => Self::E5m2Fnuz,
            Dtype::F8E8M0 => Self::E8m0,
            _ => return None,
        })
    }

    const fn kernel(self) -> Float8 {
        match self {
            Self::E4m3 => Float8::E4m3,
            Self::E5m2 => Float8::E5m2,
            Self::E4m3Fnuz => Float8::E4m3Fnuz,
            Self::E5m2Fnuz => Float8::E5m2Fnuz,
            Self::E8m0 => Float8::E8m0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::E4m3 => "E4M3",
            Self::E5m2 => "E5M2",
            Self::E4m3Fnuz => "E4M3FNUZ",
            Self::E5m2Fnuz => "E5M2FNUZ",
            Self::E8m0 => "E8M0",
        }
    }
}

/// An FP8 weight: part 0 holds the codes, part 1 the scales if there are any.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Fp8Decoder {
    format: Fp8Format,
    grid: Grid,
    scale: Option<ScaleType>,
}

impl Fp8Decoder {
    pub(crate) fn new(format: Fp8Format, grid: Grid, scale: Option<ScaleType>) -> Self {
        Self { format, grid, scale }
    }

    /// Decodes row by row: rows under the same scales together, rows that the tile cuts piece by piece.
    fn run(
        &self,
        level: Level,
        to: Rounded,
        elements: Range<u64>,
        codes: &[u8],
        scales: &[f32],
        out: &mut [u8],
    ) -> usize {
        let Grid { cols, block_cols, grid_cols, .. } = self.grid;
        let format = self.format.kernel();
        let first_scale = self.grid.span(&elements).start;
        let (mut at, mut written) = (elements.start, 0);
        while at < elements.end {
            let (row, col) = (at / cols, at % cols);
            let scales = &scales[(self.grid.scale_row(row) * grid_cols + col / block_cols - first_scale) as usize..];
            let left = elements.end - at;
            let whole_rows = if col == 0 { (left / cols).min(self.grid.rows_left_in_block(row)) } else { 0 };
            let count = match whole_rows {
                0 => left.min(cols - col).min(if col % block_cols == 0 { cols } else { block_cols - col % block_cols }),
                rows => rows * cols,
            };
            let done = (at - elements.start) as usize;
            let codes = &codes[done..done + count as usize];
            let out = &mut out[done * to.bytes()..(done + count as usize) * to.bytes()];
            written += match whole_rows {
                0 => kernels::scaled_runs(level, format, to, codes, scales, block_cols as usize, out),
                _ if grid_cols == 1 => kernels::scaled(level, format, to, codes, scales[0], out),
                _ => {
                    let (run, cols) = (block_cols as usize, cols as usize);
                    kernels::scaled_block_rows(level, format, to, codes, scales, run, cols, out)
                }
            };
            at += count;
        }
        written
    }
}

impl TileDecoder for Fp8Decoder {
    fn granule(&self) -> u64 {
        row_granule(self.grid.cols)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::run(0, elements.start, elements.end - elements.start));
        if let Some(scale) = self.scale {
            let span = self.grid.span(&elements);
            windows.push(Window::run(1, span.start * scale.bytes(), (span.end - span.start) * scale.bytes()));
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
        let (codes, scales) = match (inputs, self.scale) {
            ([codes, scales], Some(scale)) => {
                let widened = context.floats(scales.len() / scale.bytes() as usize);
                scale.widen(level, scales, widened)?;
                (*codes, &*widened)
            }
            ([codes, ..], _) => (*codes, &[1.0][..]),
            ([], _) => return Err(mishandled("no codes")),
        };
        Ok(self.run(level, rounded(target), elements, codes, scales, out))
    }

    fn describe(&self) -> String {
        let arrangement = match (self.scale, self.grid.arrangement) {
            (None, _) => "unscaled".to_owned(),
            (_, Arrangement::Tensor) => "one scale per tensor".to_owned(),
            (_, Arrangement::Row) => "one scale per row".to_owned(),
            (_, Arrangement::Column) => "one scale per column".to_owned(),
            (_, Arrangement::Matrix) => "one scale per matrix".to_owned(),
            (_, Arrangement::Block(rows, cols)) => format!("{rows}x{cols} blocks"),
        };
        format!("FP8 {}, {arrangement}", self.format.name())
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        LibraryArithmetic::in_type_of(self.scale)
    }
}
