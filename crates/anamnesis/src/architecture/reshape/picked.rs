//! Rows in another order, or some of them.

use std::ops::Range;

use crate::architecture::tree::Step;
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::{Context, Inner, TileDecoder, Window, element_bytes};

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pick {
    Pair {
        rows: u64,
    },
    Unpair {
        rows: u64,
    },
    /// A transposed matrix of `outer` by `inner` rows; `is_whole` reads all its rows at once.
    Swap {
        outer: u64,
        inner: u64,
        is_whole: bool,
    },
    Part {
        per: u64,
        start: u64,
        count: u64,
    },
    Every {
        step: u64,
        first: u64,
    },
}

/// The most elements of a transposed matrix of rows that is read at once.
const MOST_AT_ONCE: u64 = 1 << 18;

/// Rows of another decoder, of `row` elements each.
#[derive(Hash)]
pub(super) struct Picked {
    inner: Inner,
    row: u64,
    pick: Pick,
}

/// Rows of the output, and the rows of the inner decoder that hold them.
struct Cover {
    output: Range<u64>,
    inner: Range<u64>,
}

impl Picked {
    /// The rows a step takes; `None` where it is another kind of step. `bytes` scales rows of values to rows of blocks.
    pub(super) fn of(inner: Inner, step: &Step, bytes: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let (row, pick) = match *step {
            Step::Pair { row, rows } => (row, Pick::Pair { rows }),
            Step::Unpair { row, rows } => (row, Pick::Unpair { rows }),
            Step::Swap { row, outer, inner } => {
                let elements = outer.saturating_mul(inner).saturating_mul(row);
                (row, Pick::Swap { outer, inner, is_whole: elements <= MOST_AT_ONCE })
            }
            Step::Part { row, per, start, count } => (row, Pick::Part { per, start, count }),
            Step::Every { row, step, first } => (row, Pick::Every { step, first }),
            Step::Transpose { .. } | Step::Each(_) | Step::Fold { .. } | Step::Resample { .. } => return None,
        };
        Some(Self { inner, row: bytes(row)?.max(1), pick })
    }

    /// How many elements are left.
    pub(super) fn elements(&self) -> u64 {
        let rows = self.inner.elements / self.row;
        let left = match self.pick {
            Pick::Pair { .. } | Pick::Unpair { .. } | Pick::Swap { .. } => rows,
            Pick::Part { per, count, .. } => rows / per.max(1) * count,
            Pick::Every { step, .. } => rows / step.max(1),
        };
        left * self.row
    }

    fn covers(&self, elements: &Range<u64>) -> Vec<Cover> {
        let output = elements.start / self.row..elements.end / self.row;
        match self.pick {
            Pick::Pair { .. } | Pick::Unpair { .. } | Pick::Swap { is_whole: true, .. } => {
                vec![Cover { inner: output.clone(), output }]
            }
            Pick::Swap { is_whole: false, .. } => {
                let of_row = |row| {
                    let source = self.source(row);
                    Cover { output: row..row + 1, inner: source..source + 1 }
                };
                output.map(of_row).collect()
            }
            Pick::Every { step, .. } => {
                let inner = output.start * step..output.end * step;
                vec![Cover { output, inner }]
            }
            Pick::Part { per, start, count } => {
                let mut covers = Vec::new();
                let mut at = output.start;
                while at < output.end {
                    let (matrix, within) = (at / count.max(1), at % count.max(1));
                    let end = output.end.min(at + count - within);
                    let from = matrix * per + start + within;
                    covers.push(Cover { output: at..end, inner: from..from + (end - at) });
                    at = end;
                }
                covers
            }
        }
    }

    /// The row of the inner decoder that an output row is.
    fn source(&self, row: u64) -> u64 {
        match self.pick {
            Pick::Pair { rows } => {
                let (head, within) = (row / rows * rows, row % rows);
                head + within % 2 * (rows / 2) + within / 2
            }
            Pick::Unpair { rows } => {
                let (head, within, half) = (row / rows * rows, row % rows, rows / 2);
                head + within % half * 2 + within / half
            }
            Pick::Swap { outer, inner, .. } => {
                let (whole, within) = (row / (outer * inner) * (outer * inner), row % (outer * inner));
                whole + within % outer * inner + within / outer
            }
            Pick::Part { per, start, count } => row / count * per + start + row % count,
            Pick::Every { step, first } => row * step + first,
        }
    }

    /// Elements of rows.
    fn span(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start * self.row..rows.end * self.row
    }
}

impl TileDecoder for Picked {
    fn granule(&self) -> u64 {
        match self.pick {
            Pick::Pair { rows } | Pick::Unpair { rows } => rows * self.row,
            Pick::Swap { outer, inner, is_whole: true } => outer * inner * self.row,
            Pick::Swap { .. } | Pick::Part { .. } | Pick::Every { .. } => self.row,
        }
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        for cover in self.covers(&elements) {
            self.inner.windows(&self.span(&cover.inner), windows);
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
        let row_bytes = element_bytes(&elements, out) * self.row as usize;
        let (mut inputs, mut rest, mut written) = (inputs, out, 0);
        for Cover { output, inner } in self.covers(&elements) {
            let (now, behind) =
                std::mem::take(&mut rest).split_at_mut((output.end - output.start) as usize * row_bytes);
            rest = behind;
            if matches!(self.pick, Pick::Part { .. } | Pick::Swap { is_whole: false, .. }) {
                inputs = self.inner.decode(&self.span(&inner), inputs, target, now, context)?;
                written += now.len();
                continue;
            }
            let mut all = context.lend((inner.end - inner.start) as usize * row_bytes);
            inputs = self.inner.decode(&self.span(&inner), inputs, target, &mut all, context)?;
            for (row, into) in output.zip(now.chunks_exact_mut(row_bytes)) {
                let from = (self.source(row) - inner.start) as usize * row_bytes;
                into.copy_from_slice(&all[from..from + row_bytes]);
                written += row_bytes;
            }
            context.take_back(all);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
