//! Linear layers: rows multiplied by a matrix, with sums in the order of MKL.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::products;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{filled, rounded};
use crate::scheme::{Context, Inner, TileDecoder, Window};

use super::values::values;

/// A linear layer on the rows of another decoder.
#[derive(Hash)]
pub(super) struct Linear {
    pub(super) rows: Inner,
    /// A row for each output.
    pub(super) matrix: Inner,
    pub(super) bias: Inner,
    pub(super) inputs: u64,
    pub(super) outputs: u64,
}

/// The most terms that are summed at a time, one after another: MKL on CPUs with AVX-512.
const TERMS: usize = 384;
/// Rows of a tile, each of which reads the whole matrix.
const ROWS: u64 = 256;

impl Linear {
    /// The number of elements of the result.
    pub(super) fn elements(&self) -> u64 {
        self.rows.elements / self.inputs.max(1) * self.outputs
    }

    /// The inputs of the rows that a range covers.
    fn read(&self, elements: &Range<u64>) -> Range<u64> {
        let outputs = self.outputs.max(1);
        elements.start / outputs * self.inputs..elements.end.div_ceil(outputs) * self.inputs
    }
}

/// The terms of a block of `width` terms in all: fewer than two whole blocks are halved.
fn block(width: usize) -> usize {
    if (TERMS + 1..2 * TERMS).contains(&width) { width.div_ceil(2) } else { TERMS }
}

impl TileDecoder for Linear {
    fn granule(&self) -> u64 {
        self.outputs.max(1)
    }

    fn tile_bytes(&self) -> u64 {
        self.outputs.saturating_mul(4 * ROWS)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.rows.windows(&self.read(&elements), windows);
        self.matrix.windows(&(0..self.matrix.elements), windows);
        self.bias.windows(&(0..self.bias.elements), windows);
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
        let (width, cols) = (self.inputs.max(1) as usize, self.outputs.max(1) as usize);
        let (rows, inputs) = values(&self.rows, &self.read(&elements), inputs, context)?;
        let (matrix, inputs) = values(&self.matrix, &(0..self.matrix.elements), inputs, context)?;
        let (bias, _) = values(&self.bias, &(0..self.bias.elements), inputs, context)?;
        let count = (elements.end - elements.start) as usize;
        let mut sums = context.lend_floats(count);
        for sums in sums.chunks_exact_mut(cols) {
            sums.copy_from_slice(&bias);
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut product = context.lend_floats(count);
        for start in (0..width).step_by(block(width)) {
            let terms = start..(start + block(width)).min(width);
            left.clear();
            rows.chunks_exact(width).for_each(|row| left.extend_from_slice(row.get(terms.clone()).unwrap_or_default()));
            right.clear();
            right.resize(terms.len() * cols, 0.0);
            for (col, row) in matrix.chunks_exact(width).enumerate() {
                let terms = row.get(terms.clone()).unwrap_or_default();
                right.iter_mut().skip(col).step_by(cols).zip(terms).for_each(|(to, from)| *to = *from);
            }
            filled(products(level, &left, terms.len(), &right, cols, &mut product), count)?;
            sums.iter_mut().zip(&product).for_each(|(sum, product)| *sum += product);
        }
        let written = round_slice(level, rounded(target), &sums, out);
        for floats in [rows, matrix, bias, sums, product] {
            context.take_back_floats(floats);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        self.rows.decoder.describe()
    }
}
