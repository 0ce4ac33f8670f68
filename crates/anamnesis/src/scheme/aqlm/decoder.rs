//! Decoding sums of codebook entries.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;

use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Context, ScaleType, TileDecoder, Window, filled, mishandled, rounded, tile_with_tables};

/// The decoder of a weight: the part indices are codes, codebooks, scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Additive {
    /// Groups of inputs.
    pub col_groups: u64,
    /// Codebooks.
    pub count: u64,
    /// Bits of a code.
    pub bits: u32,
    /// Outputs and inputs of a group.
    pub outputs: u64,
    pub inputs: u64,
    pub code_bytes: u64,
    pub book: ScaleType,
    pub scale: ScaleType,
}

impl Additive {
    fn cols(&self) -> u64 {
        self.col_groups * self.inputs
    }

    /// Values of all codebooks.
    fn book_values(&self) -> u64 {
        (self.count << self.bits) * self.outputs * self.inputs
    }

    fn row_groups(&self, elements: &Range<u64>) -> Range<u64> {
        let granule = self.granule().max(1);
        elements.start / granule..elements.end.div_ceil(granule)
    }

    /// The entry that a stored code selects.
    fn entry(&self, stored: &[u8]) -> Result<usize> {
        let code = match *stored {
            [byte] => i32::from(byte.cast_signed()),
            [low, high] => i32::from(i16::from_le_bytes([low, high])),
            _ => return Err(mishandled("a code of another size")),
        };
        let half = 1 << (self.bits - 1);
        if !(-half..half).contains(&code) {
            let entries = 1 << self.bits;
            return Err(AnamnesisError::parse(format!("the code {code} is none of a codebook of {entries} entries")));
        }
        Ok((code & (2 * half - 1)) as usize)
    }

    /// Decodes the rows of one group of outputs.
    fn rows(&self, codes: &[u8], books: &[f32], scale: f32, rows: &mut [f32]) -> Result<()> {
        let (outputs, inputs, cols) = (self.outputs as usize, self.inputs as usize, self.cols() as usize);
        let vector = outputs * inputs;
        let of_group = codes.chunks_exact((self.count * self.code_bytes) as usize);
        for (group, codes) in of_group.enumerate() {
            for (book, code) in codes.chunks_exact(self.code_bytes as usize).enumerate() {
                let start = ((book << self.bits) + self.entry(code)?) * vector;
                let entry = books.get(start..start + vector).ok_or_else(|| mishandled("too few codebooks"))?;
                for (row, entry) in entry.chunks_exact(inputs).enumerate() {
                    let out = &mut rows[row * cols + group * inputs..][..inputs];
                    match book {
                        0 => out.copy_from_slice(entry),
                        _ => out.iter_mut().zip(entry).for_each(|(sum, value)| *sum += value),
                    }
                }
            }
        }
        rows.iter_mut().for_each(|value| *value *= scale);
        Ok(())
    }
}

impl TileDecoder for Additive {
    fn granule(&self) -> u64 {
        self.outputs * self.cols()
    }

    fn tile_bytes(&self) -> u64 {
        tile_with_tables(self.book_values() * self.book.bytes())
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let groups = self.row_groups(&elements);
        let row_bytes = self.col_groups * self.count * self.code_bytes;
        windows.push(Window::between(0, groups.start * row_bytes..groups.end * row_bytes));
        windows.push(Window::run(1, 0, self.book_values() * self.book.bytes()));
        windows.push(Window::between(2, groups.start * self.scale.bytes()..groups.end * self.scale.bytes()));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [codes, stored_books, stored_scales] = inputs else {
            return Err(mishandled("other windows than it asked for"));
        };
        let (level, to) = (context.level(), rounded(target));
        let groups = self.row_groups(&elements);
        let mut books = context.lend_floats(self.book_values() as usize);
        self.book.widen(level, stored_books, &mut books)?;
        let mut scales = context.lend_floats((groups.end - groups.start) as usize);
        self.scale.widen(level, stored_scales, &mut scales)?;
        let mut rows = context.lend_floats(self.granule() as usize);
        let row_bytes = (self.col_groups * self.count * self.code_bytes) as usize;
        let mut written = 0;
        let outputs = out.chunks_exact_mut(rows.len() * to.bytes());
        for ((out, codes), scale) in outputs.zip(codes.chunks_exact(row_bytes)).zip(&scales) {
            self.rows(codes, &books, *scale, &mut rows)?;
            let rounded = round_slice(level, to, &rows, out);
            filled(rounded, out.len())?;
            written += rounded;
        }
        for floats in [books, scales, rows] {
            context.take_back_floats(floats);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        format!("AQLM {}x{}, groups of {}x{}", self.count, self.bits, self.outputs, self.inputs)
    }
}
