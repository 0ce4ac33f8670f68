//! Rows and columns exchanged, in every matrix of a stack.

use std::ops::Range;

use super::inner::{Inner, bytes_of_each};
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;
use crate::scheme::{Context, PlainDecoder, TileDecoder, Window};

/// Output bytes of a tile: stored rows are read piece by piece, and longer pieces cost less.
const TILE_BYTES: u64 = 1 << 20;

/// Matrices of `rows` by `cols` that become `cols` by `rows`.
#[derive(Hash)]
pub(super) struct Turned {
    pub(super) inner: Inner,
    pub(super) rows: u64,
    pub(super) cols: u64,
    /// The type of what is stored as ordinary numbers, whose columns can be read by themselves.
    pub(super) stored: Option<(Dtype, PlainDecoder)>,
}

impl Turned {
    /// The matrices that a range of output elements is in, with the columns of each.
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

impl TileDecoder for Turned {
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
    ) -> Result<()> {
        let each = bytes_of_each(&elements, out);
        let mut all = context.lend(out.len());
        if self.stored.is_none() {
            self.inner.decode(&elements, inputs, target, &mut all, context)?;
        }
        let mut done = 0;
        for (index, (_, columns)) in self.strips(&elements).enumerate() {
            let count = self.rows * (columns.end - columns.start);
            let place = done..done + count as usize * each;
            if let (Some((_, decoder)), Some(input)) = (&self.stored, inputs.get(index)) {
                decoder.decode(0..count, &[input], target, &mut all[place.clone()], context)?;
            }
            turn(&all[place.clone()], self.rows as usize, each, &mut out[place.clone()]);
            done = place.end;
        }
        context.take_back(all);
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}

/// Exchanges rows and columns of a matrix of `rows` rows, whose values take `each` bytes.
fn turn(from: &[u8], rows: usize, each: usize, into: &mut [u8]) {
    match each {
        2 => turn_values::<2>(from, rows, into),
        4 => turn_values::<4>(from, rows, into),
        _ => {}
    }
}

/// Values on a side of the squares that are turned together, so that both sides stay in the caches.
const SQUARE: usize = 32;

fn turn_values<const EACH: usize>(from: &[u8], rows: usize, into: &mut [u8]) {
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
