//! Companions that are stored transposed: `[groups, rows]` in place of `[rows, groups]`.

use std::ops::Range;

use super::context::Context;
use super::decoder::Window;
use super::filled::mishandled;
use super::restored::Restore;
use crate::error::Result;

/// A part that holds matrices of `rows` by `cols` elements. Its plain form is a single matrix, `rows` wide: the
/// transposed matrices, one below the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TransposedPart {
    pub(crate) part: usize,
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    /// Bytes of an element.
    pub(crate) each: u64,
}

impl TransposedPart {
    /// The plain rows that a byte range touches, in runs that are columns of one stored matrix: the matrix, and its
    /// columns.
    fn runs(&self, plain: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let (row_bytes, cols) = ((self.rows * self.each).max(1), self.cols.max(1));
        let (mut at, end) = (plain.start / row_bytes, plain.end.div_ceil(row_bytes));
        std::iter::from_fn(move || {
            let (matrix, first) = (at / cols, at % cols);
            let last = cols.min(first + end.saturating_sub(at));
            at += last - first;
            (first < last).then_some((matrix, first..last))
        })
    }
}

impl Restore for TransposedPart {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let Self { part, rows, cols, each } = *self;
        for (matrix, columns) in self.runs(plain) {
            let offset = (matrix * rows * cols + columns.start) * each;
            windows.push(Window::columns(part, offset, (columns.end - columns.start) * each, cols * each, rows));
        }
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let (each, row_bytes) = (self.each as usize, self.rows * self.each);
        let mut row_start = plain.start / row_bytes.max(1) * row_bytes;
        for ((_, columns), stored) in self.runs(plain).zip(inputs) {
            let count = (columns.end - columns.start) as usize;
            for column in 0..count {
                for (element, row) in (row_start..).step_by(each).zip(0..self.rows as usize) {
                    if !plain.contains(&element) {
                        continue;
                    }
                    let (from, to) = ((row * count + column) * each, (element - plain.start) as usize);
                    let bytes = stored.get(from..from + each).zip(out.get_mut(to..to + each));
                    let (from, to) = bytes.ok_or_else(|| mishandled("a window of another size"))?;
                    to.copy_from_slice(from);
                }
                row_start += row_bytes;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_of_a_stack_is_transposed() {
        // Two matrices of 3 by 4: the plain form has eight rows of three.
        let stored: Vec<u8> = (0..24u16).flat_map(u16::to_le_bytes).collect();
        let part = TransposedPart { part: 0, rows: 3, cols: 4, each: 2 };
        let plain: Vec<u8> =
            (0..24u16).map(|at| at / 12 * 12 + at % 3 * 4 + at % 12 / 3).flat_map(u16::to_le_bytes).collect();
        for start in (0..48).step_by(2) {
            for end in (start + 2..=48).step_by(2) {
                let (range, mut windows) = (start as u64..end as u64, Vec::new());
                part.windows(&range, &mut windows);
                let inputs: Vec<Vec<u8>> = windows
                    .iter()
                    .map(|window| {
                        let row = |row: u64| (window.offset + row * window.stride) as usize;
                        (0..window.rows)
                            .flat_map(|at| stored[row(at)..][..window.row_bytes as usize].to_vec())
                            .collect()
                    })
                    .collect();
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let mut out = vec![0; end - start];
                part.restore(&range, &inputs, &mut out, &mut Context::default()).unwrap();
                assert_eq!(out, plain[start..end], "{range:?}");
            }
        }
    }
}
