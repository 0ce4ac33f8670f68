//! Decoding to `[out, in]`: a tile of the output is a range of columns of the stored words.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{Rounded, affine_fields, round_slice, transpose_columns};
use anamnesis_kernels::float::f16;
use anamnesis_kernels::{Level, widen_f16};

use super::groups::{RUN, Run};
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// Outputs at whose multiples tiles are cut.
const OUTPUTS: u64 = 32;
/// Output bytes per tile. Rows of words are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 2 << 20;
/// Inputs that are decoded and transposed together.
const ROWS: usize = 32;

/// The decoder of a weight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Packed {
    pub outputs: u64,
    /// Rows of words.
    pub words: u64,
    pub groups: u64,
    pub runs: Arc<[Run]>,
    /// The packed row of each input.
    pub order: Arc<[u16]>,
}

impl Packed {
    fn inputs(&self) -> usize {
        self.order.len()
    }

    fn columns(&self, elements: &Range<u64>) -> Range<u64> {
        let inputs = (self.inputs() as u64).max(1);
        elements.start / inputs..elements.end.div_ceil(inputs)
    }

    /// The scales of each group and output: products in half precision.
    fn scales(&self, columns: usize, codes: &[u8], largest: &[u8], scales: &mut [f32]) -> Result<()> {
        filled(codes.len() * 2, scales.len())?;
        filled(largest.len(), 2 * self.groups as usize)?;
        let half = |value: f32| f16::decode(f16::encode(value));
        for (group, scales) in scales.chunks_exact_mut(columns.max(1)).enumerate() {
            let stored = [largest[2 * group], largest[2 * group + 1]];
            let largest = half(f16::decode(u16::from_le_bytes(stored)) / 256.0);
            let table: [f32; 16] = std::array::from_fn(|code| half(((code + 1) * (code + 1)) as f32 * largest));
            for (scale, at) in scales.iter_mut().zip(group * columns..) {
                *scale = table[usize::from(codes[at / 2] >> (at % 2 * 4) & 15)];
            }
        }
        Ok(())
    }

    /// Decodes one input of all columns to half precision.
    fn row(
        &self,
        level: Level,
        words: &[u8],
        input: usize,
        scales: &[f32],
        [joined, out]: [&mut [u8]; 2],
        middles: &mut [f32],
    ) -> Result<()> {
        let columns = middles.len();
        let packed = self.order.get(input).map_or(0, |row| usize::from(*row));
        let run = self.runs.get(packed / RUN as usize).ok_or_else(|| mishandled("an input without a group"))?;
        let bit = packed % RUN as usize * usize::from(run.bits);
        let (word, shift) = (run.first_word as usize + bit / 32, (bit % 32) as u32);
        let row = |word: usize| words.get(word * columns * 4..(word + 1) * columns * 4);
        let first = row(word).ok_or_else(|| mishandled("too few words"))?;
        let is_split = shift + u32::from(run.bits) > 32;
        if is_split {
            let second = row(word + 1).ok_or_else(|| mishandled("too few words"))?;
            let pairs = first.as_chunks::<4>().0.iter().zip(second.as_chunks::<4>().0);
            for (joined, (low, high)) in joined.as_chunks_mut::<4>().0.iter_mut().zip(pairs) {
                let word = u32::from_le_bytes(*low) >> shift | u32::from_le_bytes(*high) << (32 - shift);
                *joined = word.to_le_bytes();
            }
        }
        let (fields, shift) = if is_split { (&*joined, 0) } else { (first, shift) };
        let scales = &scales[usize::from(run.group) * columns..][..columns];
        let middle = f32::from(1u8 << (run.bits - 1));
        if middles.first() != Some(&middle) {
            middles.fill(middle);
        }
        filled(affine_fields(level, Rounded::F16, fields, shift, run.bits.into(), middles, scales, out), out.len())
    }
}

impl TileDecoder for Packed {
    fn granule(&self) -> u64 {
        OUTPUTS * self.inputs() as u64
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let columns = self.columns(&elements);
        let count = columns.end - columns.start;
        windows.push(Window::columns(0, columns.start * 4, count * 4, self.outputs * 4, self.words));
        windows.push(Window::columns(1, columns.start / 2, count / 2, self.outputs / 2, self.groups));
        windows.push(Window::run(2, 0, 2 * self.groups));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [words, codes, largest] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let (level, to) = (context.level(), rounded(target));
        let columns = self.columns(&elements);
        let columns = (columns.end - columns.start) as usize;
        let mut scales = context.lend_floats(self.groups as usize * columns);
        self.scales(columns, codes, largest, &mut scales)?;
        let mut values = context.lend_floats(columns);
        let mut middles = context.lend_floats(columns);
        middles.fill(0.0);
        let [mut joined, mut halves] = [4, 2].map(|each| context.lend(each * columns));
        let mut decoded = context.lend(ROWS * columns * to.bytes());
        let mut written = 0;
        for start in (0..self.inputs()).step_by(ROWS) {
            let count = ROWS.min(self.inputs() - start);
            for (input, out) in (start..start + count).zip(decoded.chunks_exact_mut((columns * to.bytes()).max(1))) {
                self.row(level, words, input, &scales, [&mut joined, &mut halves], &mut middles)?;
                match to {
                    Rounded::F16 => out.copy_from_slice(&halves),
                    _ => {
                        filled(widen_f16(level, &halves, &mut values), columns)?;
                        filled(round_slice(level, to, &values, out), out.len())?;
                    }
                }
            }
            let transposed = transpose_columns(level, to, &decoded, count, columns, out, self.inputs(), start);
            filled(transposed, count * columns * to.bytes())?;
            written += transposed;
        }
        for bytes in [joined, halves, decoded] {
            context.take_back(bytes);
        }
        for floats in [scales, values, middles] {
            context.take_back_floats(floats);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        let bits = self.runs.iter().map(|run| u64::from(run.bits)).sum::<u64>() as f64 / self.runs.len().max(1) as f64;
        format!("EXL2 {bits:.2} bits, {} groups", self.groups)
    }
}
