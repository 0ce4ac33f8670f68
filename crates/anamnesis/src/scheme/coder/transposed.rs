//! Transposing every matrix of a stack.

use std::ops::Range;
use std::sync::Arc;

use super::context::Context;
use super::decoder::{Prepare, Prepared, Recipe, TileDecoder, Window};
use super::filled::{filled, mishandled};
use super::inner::{Inner, element_bytes};
use super::plain::PlainDecoder;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::{AnamnesisError, Result};

/// Output bytes per tile. Stored rows are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 1 << 20;

/// The largest quantised matrix that is transposed, because it is decoded in one tile.
const MAX_TRANSPOSED_VALUES: usize = 1 << 26;

/// Wraps a decoder and transposes its matrices of `rows` by `cols`.
#[derive(Hash)]
pub(crate) struct Transposed {
    pub(crate) inner: Inner,
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    /// The type of unquantised values, of which single columns can be read.
    pub(crate) stored: Option<(Dtype, PlainDecoder)>,
}

impl Transposed {
    /// Transposes a matrix of this shape. `stored` is its type if it is not quantised.
    pub(crate) fn around(decoder: Arc<dyn TileDecoder>, [rows, cols]: [usize; 2], stored: Option<Dtype>) -> Self {
        let (rows, cols) = (rows as u64, cols as u64);
        let stored = stored.and_then(|dtype| Some((dtype, PlainDecoder::of(dtype)?)));
        Self { inner: Inner { decoder, elements: rows * cols, first_part: 0 }, rows, cols, stored }
    }

    /// The matrices that a range of output elements covers, with the range of stored columns of each.
    fn strips(&self, elements: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let (rows, cols) = (self.rows.max(1), self.cols.max(1));
        let (mut at, end) = (elements.start / rows, elements.end / rows);
        std::iter::from_fn(move || {
            let (matrix, first) = (at / cols, at % cols);
            let last = cols.min(first + end.saturating_sub(at));
            at += last - first;
            (first < last).then_some((matrix, first..last))
        })
    }
}

impl Recipe {
    /// The recipe and shape of a `Conv1D` weight: it is quantised in the orientation of a linear layer, and the class
    /// stores it transposed. `outputs` is the length of its bias, if it has one.
    pub(crate) fn transposed(self, shape: &[usize], outputs: Option<usize>) -> Result<(Self, Vec<usize>)> {
        match self {
            Self::Ready(decoder) => {
                let [rows, cols] = stored_as_linear(shape, outputs)?;
                Ok((Self::Ready(Arc::new(Transposed::around(decoder, [rows, cols], None))), vec![cols, rows]))
            }
            Self::Deferred(inner) => {
                let shape = shape.iter().rev().copied().collect();
                Ok((Self::Deferred(Arc::new(TransposedLater { inner, outputs })), shape))
            }
        }
    }
}

/// The shape of a quantised matrix, which must be that of a linear layer, with a row per output.
fn stored_as_linear(shape: &[usize], outputs: Option<usize>) -> Result<[usize; 2]> {
    let &[rows, cols] = shape else {
        return Err(AnamnesisError::parse(format!("shape {shape:?}; a layer of the class Conv1D has a matrix")));
    };
    if rows.saturating_mul(cols) > MAX_TRANSPOSED_VALUES {
        let message = format!("{rows} by {cols} values are to be transposed, {MAX_TRANSPOSED_VALUES} are allowed");
        return Err(AnamnesisError::limit("MAX_TRANSPOSED_VALUES", message));
    }
    match outputs.filter(|outputs| *outputs != rows) {
        None => Ok([rows, cols]),
        Some(outputs) => Err(AnamnesisError::parse(format!(
            "shape {shape:?} under a bias of {outputs} values; quantised layers of the class Conv1D have a row for every output"
        ))),
    }
}

/// A weight that is transposed after its companions have been read.
struct TransposedLater {
    inner: Arc<dyn Prepare>,
    outputs: Option<usize>,
}

impl Prepare for TransposedLater {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let prepared = self.inner.prepare(read)?;
        let [rows, cols] = stored_as_linear(&prepared.shape, self.outputs)?;
        let decoder = Arc::new(Transposed::around(prepared.decoder, [rows, cols], None));
        Ok(Prepared { shape: vec![cols, rows], decoder, ..prepared })
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl TileDecoder for Transposed {
    fn granule(&self) -> u64 {
        match self.stored {
            Some(_) => self.rows,
            None => self.rows * self.cols,
        }
        .max(1)
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let Some((dtype, _)) = &self.stored else { return self.inner.windows(&elements, windows) };
        let each = dtype.byte_size() as u64;
        for (matrix, columns) in self.strips(&elements) {
            let first = (matrix * self.rows * self.cols + columns.start) * each;
            let wide = (columns.end - columns.start) * each;
            windows.push(Window::columns(self.inner.first_part, first, wide, self.cols * each, self.rows));
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
        let each = element_bytes(&elements, out);
        let mut all = context.lend(out.len());
        if self.stored.is_none() {
            self.inner.decode(&elements, inputs, target, &mut all, context)?;
        }
        let mut done = 0;
        for (index, (_, columns)) in self.strips(&elements).enumerate() {
            let count = self.rows * (columns.end - columns.start);
            let place = done..done + count as usize * each;
            if let Some((_, decoder)) = &self.stored {
                let input = inputs.get(index).ok_or_else(|| mishandled("fewer windows than it asked for"))?;
                let written = decoder.decode(0..count, &[input], target, &mut all[place.clone()], context)?;
                filled(written, place.len())?;
            }
            transpose(&all[place.clone()], self.rows as usize, each, &mut out[place.clone()]);
            done = place.end;
        }
        context.take_back(all);
        Ok(done)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}

/// Transposes a matrix of `rows` rows with `each` bytes per value.
fn transpose(from: &[u8], rows: usize, each: usize, into: &mut [u8]) {
    match each {
        2 => transpose_values::<2>(from, rows, into),
        4 => transpose_values::<4>(from, rows, into),
        _ => {}
    }
}

/// The side length of the squares that are transposed at a time, so that source and destination stay in the L1 cache.
const SQUARE: usize = 32;

fn transpose_values<const EACH: usize>(from: &[u8], rows: usize, into: &mut [u8]) {
    let (from, into) = (from.as_chunks::<EACH>().0, into.as_chunks_mut::<EACH>().0);
    let cols = from.len() / rows.max(1);
    for top in (0..rows).step_by(SQUARE) {
        for left in (0..cols).step_by(SQUARE) {
            for col in left..cols.min(left + SQUARE) {
                for row in top..rows.min(top + SQUARE) {
                    into[col * rows + row] = from[row * cols + col];
                }
            }
        }
    }
}
