//! The geometry of scales: which scale applies to which element.

use std::ops::Range;

use crate::catalog::dtype::elements;

/// The arrangement of the scales of a weight, from the configuration or from the shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arrangement {
    /// One scale.
    Tensor,
    /// One per row.
    Row,
    /// One per column of each matrix.
    Column,
    /// One per matrix of a stack.
    Matrix,
    /// One per block of these rows and columns.
    Block(u64, u64),
}

/// A grid of scales over a stack of matrices. Each matrix has its own grid, whose last blocks may be partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    /// Rows of one matrix.
    pub rows: u64,
    pub cols: u64,
    pub block_rows: u64,
    pub block_cols: u64,
    /// Blocks across one matrix.
    pub grid_cols: u64,
    /// Blocks down one matrix.
    pub grid_rows: u64,
    pub arrangement: Arrangement,
}

/// The default block size, that of DeepSeek's format.
const DEFAULT_BLOCK: u64 = 128;

impl Grid {
    /// A single scale for all elements.
    pub(crate) fn single(total: u64) -> Self {
        Self::new(1, total, 1, total, Arrangement::Tensor)
    }

    /// Matrices of `rows` × `cols` in blocks of `block_rows` × `block_cols`.
    pub(crate) fn new(rows: u64, cols: u64, block_rows: u64, block_cols: u64, arrangement: Arrangement) -> Self {
        let (block_rows, block_cols) = (block_rows.clamp(1, rows.max(1)), block_cols.clamp(1, cols.max(1)));
        let (grid_rows, grid_cols) = (rows.div_ceil(block_rows), cols.div_ceil(block_cols));
        Self { rows, cols, block_rows, block_cols, grid_cols, grid_rows, arrangement }
    }

    /// The index of the row of scales for a row, counted over the whole stack.
    pub(crate) fn scale_row(&self, row: u64) -> u64 {
        (row / self.rows) * self.grid_rows + (row % self.rows) / self.block_rows
    }

    /// The number of rows from `row` on that share its row of scales.
    pub(crate) fn rows_left_in_block(&self, row: u64) -> u64 {
        let inside = row % self.rows;
        let end = (inside / self.block_rows + 1) * self.block_rows;
        end.min(self.rows) - inside
    }

    /// The scales that these elements need, counted over the whole grid. Elements in one row, or in two adjacent rows
    /// with different rows of scales, need only the scales from the first to the last element; otherwise whole rows of
    /// scales are returned.
    pub(crate) fn span(&self, elements: &Range<u64>) -> Range<u64> {
        let &Self { cols, block_cols, grid_cols, .. } = self;
        let last = elements.end.saturating_sub(1).max(elements.start);
        let rows = (elements.start / cols, last / cols);
        let scale_rows = (self.scale_row(rows.0), self.scale_row(rows.1));
        if rows.1 - rows.0 <= 1 && scale_rows.1 - scale_rows.0 == rows.1 - rows.0 {
            let column = |element: u64| element % cols / block_cols;
            return scale_rows.0 * grid_cols + column(elements.start)..scale_rows.1 * grid_cols + column(last) + 1;
        }
        scale_rows.0 * grid_cols..(scale_rows.1 + 1) * grid_cols
    }

    /// The grid of scales of shape `scale` over a weight of shape `weight`. With a configuration only its arrangements
    /// are accepted; without one, only an arrangement that the shapes determine.
    pub(crate) fn resolve(weight: &[usize], scale: &[usize], configured: &[Arrangement]) -> Result<Self, String> {
        let shape = Shape::of(weight);
        let total = elements(weight).unwrap_or(u64::MAX);
        let candidates = if configured.is_empty() { shape.plain_candidates(scale) } else { configured.to_vec() };
        for arrangement in candidates {
            if shape.accepts(arrangement, scale) {
                return Ok(match arrangement {
                    Arrangement::Tensor => Self::single(total),
                    Arrangement::Row => Self::new(shape.rows, shape.cols, 1, shape.cols, arrangement),
                    Arrangement::Column => Self::new(shape.rows, shape.cols, shape.rows, 1, arrangement),
                    Arrangement::Matrix => Self::new(shape.rows, shape.cols, shape.rows, shape.cols, arrangement),
                    Arrangement::Block(rows, cols) => Self::new(shape.rows, shape.cols, rows, cols, arrangement),
                });
            }
        }
        let expected = match configured {
            [] => "one value, one per row, or one per 128x128 block".to_owned(),
            _ => {
                let shapes =
                    configured.iter().flat_map(|&arrangement| shape.scale_shapes(arrangement).into_iter().next());
                shapes.map(|shape| format!("{shape:?}")).collect::<Vec<_>>().join(" or ")
            }
        };
        Err(format!("has shape {scale:?}; a weight of shape {weight:?} needs {expected}"))
    }
}

/// A weight's shape as a stack of matrices.
struct Shape<'a> {
    /// The dimensions of the stack.
    stack: &'a [usize],
    rows: u64,
    cols: u64,
    rank: usize,
}

impl<'a> Shape<'a> {
    fn of(weight: &'a [usize]) -> Self {
        let (stack, rows, cols) = match weight {
            [] => (&[][..], 1, 1),
            [cols] => (&[][..], 1, *cols as u64),
            [stack @ .., rows, cols] => (stack, *rows as u64, *cols as u64),
        };
        Self { stack, rows, cols, rank: weight.len() }
    }

    fn stacked(&self, rest: &[u64]) -> Vec<u64> {
        self.stack.iter().map(|&dim| dim as u64).chain(rest.iter().copied()).collect()
    }

    /// Whether scales of this arrangement may have this shape.
    fn accepts(&self, arrangement: Arrangement, scale: &[usize]) -> bool {
        match arrangement {
            // Any number of dimensions of 1 is one value. A hostile file may have millions of them, so they are not
            // enumerated.
            Arrangement::Tensor => scale.len() <= self.rank.max(2) && scale.iter().all(|&dim| dim == 1),
            _ => self.scale_shapes(arrangement).iter().any(|expected| same_shape(expected, scale)),
        }
    }

    /// The shapes that scales of this arrangement may have, the most common first.
    fn scale_shapes(&self, arrangement: Arrangement) -> Vec<Vec<u64>> {
        match arrangement {
            Arrangement::Tensor => vec![Vec::new(), vec![1]],
            // A vector has no rows.
            Arrangement::Row | Arrangement::Column | Arrangement::Block(..) if self.rank < 2 => Vec::new(),
            Arrangement::Column => vec![self.stacked(&[1, self.cols]), self.stacked(&[self.cols, 1])],
            Arrangement::Row => {
                let all_rows = self.stack.iter().fold(self.rows, |product, &dim| product.saturating_mul(dim as u64));
                vec![self.stacked(&[self.rows, 1]), self.stacked(&[self.rows]), vec![all_rows], vec![all_rows, 1]]
            }
            Arrangement::Matrix if self.rank < 3 => Vec::new(),
            Arrangement::Matrix => vec![self.stacked(&[1, 1]), self.stacked(&[1]), self.stacked(&[])],
            Arrangement::Block(rows, cols) => {
                vec![self.stacked(&[self.rows.div_ceil(rows.max(1)), self.cols.div_ceil(cols.max(1))])]
            }
        }
    }

    /// The possible arrangements without a configuration. A block size that merely happens to divide the shape is not
    /// guessed.
    fn plain_candidates(&self, scale: &[usize]) -> Vec<Arrangement> {
        let mut candidates = vec![
            Arrangement::Tensor,
            Arrangement::Row,
            Arrangement::Block(DEFAULT_BLOCK, DEFAULT_BLOCK),
            Arrangement::Matrix,
        ];
        // Groups along a row: a row of scales per row, and a power of two of columns per scale.
        if let Some(groups) = scale.last().map(|&groups| groups as u64).filter(|&groups| groups > 1)
            && self.cols.is_multiple_of(groups)
            && (self.cols / groups).is_power_of_two()
            && self.cols / groups >= 16
        {
            candidates.push(Arrangement::Block(1, self.cols / groups));
        }
        candidates
    }
}

fn same_shape(expected: &[u64], found: &[usize]) -> bool {
    expected.len() == found.len() && expected.iter().zip(found).all(|(&a, &b)| a == b as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrangement(weight: &[usize], scale: &[usize]) -> Option<Arrangement> {
        Grid::resolve(weight, scale, &[]).ok().map(|grid| grid.arrangement)
    }

    #[test]
    fn shapes_alone_determine_the_arrangement() {
        use Arrangement::{Block, Matrix, Row, Tensor};
        assert_eq!(arrangement(&[64, 96], &[]), Some(Tensor));
        assert_eq!(arrangement(&[64, 96], &[1]), Some(Tensor));
        assert_eq!(arrangement(&[64, 96], &[1, 1]), Some(Tensor));
        assert_eq!(arrangement(&[64, 96], &[64]), Some(Row));
        assert_eq!(arrangement(&[64, 96], &[64, 1]), Some(Row));
        assert_eq!(arrangement(&[300, 100], &[3, 1]), Some(Block(128, 128)));
        assert_eq!(arrangement(&[300, 200], &[3, 2]), Some(Block(128, 128)));
        assert_eq!(arrangement(&[4, 300, 200], &[4, 3, 2]), Some(Block(128, 128)));
        assert_eq!(arrangement(&[4, 300, 200], &[4, 300, 1]), Some(Row));
        assert_eq!(arrangement(&[4, 300, 200], &[1200]), Some(Row));
        assert_eq!(arrangement(&[4, 300, 200], &[4, 1, 1]), Some(Matrix));
        assert_eq!(arrangement(&[4, 300, 200], &[4]), Some(Matrix));
        assert_eq!(arrangement(&[16, 96], &[16, 3]), Some(Block(1, 32)));
        assert_eq!(arrangement(&[7], &[1]), Some(Tensor));
    }

    #[test]
    fn shapes_that_could_mean_several_block_sizes_are_refused() {
        for (weight, scale) in [
            (&[64, 96][..], &[32][..]),
            (&[64, 96], &[2, 2]),
            (&[64, 96], &[96]),
            (&[64, 90], &[64, 2]),
            (&[300, 200], &[2, 3]),
            (&[7], &[7]),
            (&[4, 300, 200], &[300]),
        ] {
            assert_eq!(arrangement(weight, scale), None, "{weight:?} {scale:?}");
        }
    }

    #[test]
    fn a_configured_block_size_must_fit_exactly() {
        let configured = [Arrangement::Block(64, 32)];
        let grid = Grid::resolve(&[100, 100], &[2, 4], &configured).unwrap();
        assert_eq!((grid.block_rows, grid.block_cols, grid.grid_rows, grid.grid_cols), (64, 32, 2, 4));
        assert!(Grid::resolve(&[100, 100], &[1, 1], &configured).is_err());
        let error = Grid::resolve(&[100, 100], &[2, 3], &configured).unwrap_err();
        assert!(error.contains("[2, 4]"), "{error}");
    }

    #[test]
    fn columns_are_scaled_where_that_is_configured_even_of_a_square() {
        for scale in [[2, 5, 1], [2, 1, 5]] {
            let grid = Grid::resolve(&[2, 5, 5], &scale, &[Arrangement::Column]).unwrap();
            assert_eq!((grid.block_rows, grid.block_cols, grid.grid_rows, grid.grid_cols), (5, 1, 1, 5), "{scale:?}");
        }
        assert!(Grid::resolve(&[2, 4, 5], &[2, 4, 1], &[Arrangement::Column]).is_err());
    }

    /// All stacks of up to two matrices of up to 5 × 5 values, in all blocks, and all ranges of their elements.
    #[test]
    fn the_scales_of_every_range_are_those_of_its_elements() {
        let sizes = |end: u64| (1..=end).flat_map(move |a| (1..=end).map(move |b| (a, b)));
        for ((rows, cols), (block_rows, block_cols), matrices) in
            sizes(5).flat_map(|shape| sizes(4).flat_map(move |block| [(shape, block, 1), (shape, block, 2)]))
        {
            let grid = Grid::new(rows, cols, block_rows, block_cols, Arrangement::Block(block_rows, block_cols));
            // The definition: count the blocks that begin before the element.
            let (down, across) = ((0..rows).step_by(block_rows as usize), (0..cols).step_by(block_cols as usize));
            let (in_matrix, in_row) = (down.clone().count() * across.clone().count(), across.clone().count());
            let scale = |element: u64| {
                let (row, col) = (element / cols, element % cols);
                let above = down.clone().filter(|&start| start <= row % rows).count() - 1;
                let left = across.clone().filter(|&start| start <= col).count() - 1;
                ((row / rows) as usize * in_matrix + above * in_row + left) as u64
            };
            let total = matrices * rows * cols;
            for start in 0..total {
                let (mut least, mut most) = (u64::MAX, 0);
                for last in start..total {
                    (least, most) = (least.min(scale(last)), most.max(scale(last)));
                    let span = grid.span(&(start..last + 1));
                    let case = (rows, cols, block_rows, block_cols, start, last);
                    assert!(span.contains(&least) && span.contains(&most), "{case:?}: {span:?}");
                    assert!(span.end <= matrices * in_matrix as u64, "{case:?}: {span:?}");
                    // Elements of one row need no other scales.
                    assert!(start / cols != last / cols || span == (least..most + 1), "{case:?}: {span:?}");
                }
            }
        }
    }

    #[test]
    fn rows_find_their_scales_across_a_stack_with_ragged_blocks() {
        let grid = Grid::new(5, 8, 2, 8, Arrangement::Block(2, 8));
        let rows: Vec<_> = (0..10).map(|row| (grid.scale_row(row), grid.rows_left_in_block(row))).collect();
        let one = [(0, 2), (0, 1), (1, 2), (1, 1), (2, 1)];
        let expected: Vec<_> = (0..2).flat_map(|m| one.map(|(scale, left)| (scale + 3 * m, left))).collect();
        assert_eq!(rows, expected);
    }
}
