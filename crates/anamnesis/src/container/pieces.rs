//! A tensor that is stored in pieces: boxes of its elements, each in C order of its own.
//!
//! The elements of a piece, in its own order, ascend in the order of the tensor too. So a range of the tensor needs a
//! contiguous range of each piece, which is read at once and distributed.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// A piece of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    /// The index of its first element along each axis.
    pub(crate) offsets: Vec<u64>,
    pub(crate) sizes: Vec<u64>,
    /// Where its bytes are in the source.
    pub(crate) at: u64,
}

/// A tensor in pieces.
#[derive(Debug)]
pub(crate) struct Assembled {
    shape: Vec<u64>,
    element_bytes: u64,
    /// The pieces by their first elements.
    pieces: Vec<Placed>,
    bytes: u64,
    /// The cells of a grid, if the pieces are some of them.
    grid: Option<Cells>,
}

/// The properties of pieces that are cells of a grid: some may be missing, the last ones may reach over the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cells {
    /// The bytes of an element that is in no piece; empty for zeros.
    pub(crate) fill: Vec<u8>,
    /// Whether pieces are expensive to read in part, as compressed ones are.
    pub(crate) are_compressed: bool,
}

/// A piece with the places of its elements in the tensor.
#[derive(Debug)]
struct Placed {
    piece: Piece,
    /// Its first element.
    first: u64,
    /// Its last element, or that of an earlier piece if it is higher.
    last_so_far: u64,
    /// Consecutive elements, of which the first `inside` are contiguous in the tensor too; the others are outside of it.
    run: u64,
    inside: u64,
    elements: u64,
}

/// Maximum number of cells into which the borders of all pieces divide a tensor.
const MAX_PIECE_CELLS: u64 = 1 << 22;
/// Maximum preferred bytes of a read.
const MAX_TILE_BYTES: u64 = 8 << 20;

impl Assembled {
    /// Puts pieces together, none of which is empty. They must cover the tensor without overlaps.
    pub(crate) fn new(shape: &[u64], element_bytes: u64, pieces: Vec<Piece>) -> Result<Self> {
        check_tiling(shape, elements(shape)?, &pieces)?;
        Self::placed(shape, element_bytes, pieces, None)
    }

    /// Puts the cells of a grid together. Those outside of the tensor are ignored.
    pub(crate) fn of_cells(shape: &[u64], element_bytes: u64, mut pieces: Vec<Piece>, grid: Cells) -> Result<Self> {
        pieces.retain(|Piece { offsets, sizes, .. }| {
            let has_rank = offsets.len() == shape.len() && sizes.len() == shape.len();
            has_rank && !sizes.contains(&0) && offsets.iter().zip(shape).all(|(offset, dim)| offset < dim)
        });
        Self::placed(shape, element_bytes, pieces, Some(grid))
    }

    fn placed(shape: &[u64], element_bytes: u64, pieces: Vec<Piece>, grid: Option<Cells>) -> Result<Self> {
        let bytes = elements(shape)?.checked_mul(element_bytes).ok_or_else(|| overflow(shape))?;
        let mut placed: Vec<Placed> = pieces.into_iter().map(|piece| Placed::new(piece, shape)).collect();
        placed.sort_by_key(|placed| placed.first);
        let mut last = 0;
        for placed in &mut placed {
            last = last.max(placed.last_so_far);
            placed.last_so_far = last;
        }
        Ok(Self { shape: shape.to_vec(), element_bytes, pieces: placed, bytes, grid })
    }

    /// The pieces with elements in a range of the tensor.
    fn touched(&self, elements: &Range<u64>) -> &[Placed] {
        let start = self.pieces.partition_point(|placed| placed.last_so_far < elements.start);
        let end = self.pieces.partition_point(|placed| placed.first < elements.end);
        self.pieces.get(start..end).unwrap_or_default()
    }

    /// Reads elements of the tensor.
    fn fill(&self, below: &dyn Source, elements: &Range<u64>, out: &mut [u8]) -> Result<()> {
        if let Some(Cells { fill, .. }) = &self.grid {
            match fill.len() as u64 == self.element_bytes {
                true => out.chunks_exact_mut(fill.len()).for_each(|element| element.copy_from_slice(fill)),
                false => out.fill(0),
            }
        }
        let width = self.element_bytes;
        let is_compressed = self.grid.as_ref().is_some_and(|grid| grid.are_compressed);
        let mut bytes = Vec::new();
        for placed in self.touched(elements) {
            let own = placed.count_before(elements.start, &self.shape)..placed.count_before(elements.end, &self.shape);
            // A piece that reaches over the end may be far larger than the part of it that is needed.
            let is_read_at_once = is_compressed || placed.inside == placed.run;
            let is_contiguous = own.end.saturating_sub(own.start) <= placed.run - own.start % placed.run;
            if is_read_at_once && !is_contiguous {
                bytes.resize(((own.end - own.start) * width) as usize, 0);
                below.read_at(placed.piece.at + own.start * width, &mut bytes)?;
            }
            let mut at = own.start;
            while at < own.end {
                let in_run = at % placed.run;
                let count = (placed.run - in_run).min(own.end - at);
                let inside = placed.inside.saturating_sub(in_run).min(count);
                if inside > 0
                    && let Some(place) = placed.element(at, &self.shape)
                {
                    let start = ((place - elements.start) * width) as usize;
                    let out = &mut out[start..start + (inside * width) as usize];
                    match is_read_at_once && !is_contiguous {
                        true => {
                            let start = ((at - own.start) * width) as usize;
                            out.copy_from_slice(&bytes[start..start + out.len()]);
                        }
                        false => below.read_at(placed.piece.at + at * width, out)?,
                    }
                }
                at += count;
            }
        }
        Ok(())
    }
}

fn overflow(shape: &[u64]) -> AnamnesisError {
    AnamnesisError::parse(format!("a tensor of shape {shape:?} overflows"))
}

fn elements(shape: &[u64]) -> Result<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)).ok_or_else(|| overflow(shape))
}

impl Placed {
    fn new(piece: Piece, shape: &[u64]) -> Self {
        let elements = piece.sizes.iter().product();
        let (mut run, mut inside) = (1, 1);
        let (mut first, mut last, mut step) = (0, 0, 1);
        let mut is_contiguous = true;
        for ((&size, &offset), &dim) in piece.sizes.iter().zip(&piece.offsets).zip(shape).rev() {
            let shown = size.min(dim.saturating_sub(offset));
            if is_contiguous {
                (run, inside) = (run * size, inside * shown);
                is_contiguous = size == dim;
            }
            first += offset * step;
            last += (offset + shown.saturating_sub(1)) * step;
            step *= dim;
        }
        Self { piece, first, last_so_far: last, run: run.max(1), inside, elements }
    }

    /// The place in the tensor of an element of the piece; `None` if it is outside.
    fn element(&self, own: u64, shape: &[u64]) -> Option<u64> {
        let (mut rest, mut place, mut step) = (own, 0, 1);
        for ((&size, &offset), &dim) in self.piece.sizes.iter().zip(&self.piece.offsets).zip(shape).rev() {
            let index = offset + rest % size.max(1);
            if index >= dim {
                return None;
            }
            place += index * step;
            rest /= size.max(1);
            step *= dim;
        }
        Some(place)
    }

    /// The number of the piece's elements before an element of the tensor.
    fn count_before(&self, element: u64, shape: &[u64]) -> u64 {
        let total: u64 = shape.iter().product();
        if element >= total {
            return self.elements;
        }
        let (mut before, mut inner, mut step) = (0, self.elements, total);
        let mut rest = element;
        for ((&size, &offset), &dim) in self.piece.sizes.iter().zip(&self.piece.offsets).zip(shape) {
            step /= dim.max(1);
            inner /= size.max(1);
            let index = rest / step.max(1);
            rest %= step.max(1);
            if index < offset {
                return before;
            }
            if index >= offset + size {
                return before + inner * size;
            }
            before += (index - offset) * inner;
        }
        before
    }
}

/// Checks that the pieces are inside a tensor and cover every element once.
fn check_tiling(shape: &[u64], elements: u64, pieces: &[Piece]) -> Result<()> {
    let mut cuts: Vec<Vec<u64>> = shape.iter().map(|_| Vec::with_capacity(2)).collect();
    for Piece { offsets, sizes, .. } in pieces {
        let is_inside = offsets.len() == shape.len()
            && sizes.len() == shape.len()
            && offsets
                .iter()
                .zip(sizes)
                .zip(shape)
                .all(|((&offset, &size), &dim)| size > 0 && offset.checked_add(size).is_some_and(|end| end <= dim));
        if !is_inside {
            let why = format!("a piece of {sizes:?} at {offsets:?} is not inside a tensor of shape {shape:?}");
            return Err(AnamnesisError::parse(why));
        }
        for ((cuts, &offset), &size) in cuts.iter_mut().zip(offsets).zip(sizes) {
            cuts.extend([offset, offset + size]);
        }
    }
    let covered = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.sizes.iter().product()));
    if covered.is_none_or(|covered| covered < elements) {
        let missing = covered.map_or(0, |covered| elements - covered);
        let why = format!("its pieces lack {missing} of the {elements} elements of a tensor of shape {shape:?}");
        return Err(AnamnesisError::parse(why));
    }
    if elements == 0 || pieces.len() < 2 {
        return Ok(());
    }
    // The borders of all pieces divide the tensor into cells; none may belong to two pieces. With the count above, none
    // is without a piece either.
    for cuts in &mut cuts {
        cuts.sort_unstable();
        cuts.dedup();
    }
    let cells = cuts.iter().try_fold(1u64, |product, cuts| product.checked_mul(cuts.len() as u64));
    if cells.is_none_or(|cells| cells > MAX_PIECE_CELLS) {
        let message =
            format!("the pieces of a tensor of shape {shape:?} divide it into more than {MAX_PIECE_CELLS} cells");
        return Err(AnamnesisError::limit("MAX_PIECE_CELLS", message));
    }
    let mut owned = vec![false; cells.unwrap_or_default() as usize];
    for piece in pieces {
        let ranges: Vec<Range<usize>> = cuts
            .iter()
            .zip(piece.offsets.iter().zip(&piece.sizes))
            .map(|(cuts, (&offset, &size))| {
                cuts.partition_point(|cut| *cut < offset)..cuts.partition_point(|cut| *cut < offset + size)
            })
            .collect();
        let mut cell: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        loop {
            let place = cell.iter().zip(&cuts).fold(0, |place, (&index, cuts)| place * cuts.len() + index);
            if std::mem::replace(&mut owned[place], true) {
                let Piece { offsets, sizes, .. } = piece;
                let why =
                    format!("a piece of {sizes:?} at {offsets:?} overlaps another of a tensor of shape {shape:?}");
                return Err(AnamnesisError::parse(why));
            }
            let Some(axis) = (0..cell.len()).rev().find(|&axis| cell[axis] + 1 < ranges[axis].end) else { break };
            cell[axis] += 1;
            for (index, range) in cell.iter_mut().zip(&ranges).skip(axis + 1) {
                *index = range.start;
            }
        }
    }
    Ok(())
}

impl Region for Assembled {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let width = self.element_bytes;
        let elements = offset / width..(offset + buffer.len() as u64).div_ceil(width);
        if offset.is_multiple_of(width) && (buffer.len() as u64).is_multiple_of(width) {
            return self.fill(below, &elements, buffer);
        }
        let mut whole = vec![0; ((elements.end - elements.start) * width) as usize];
        self.fill(below, &elements, &mut whole)?;
        let skipped = (offset - elements.start * width) as usize;
        buffer.copy_from_slice(&whole[skipped..skipped + buffer.len()]);
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        ("pieces", &range, &self.shape, self.element_bytes, &self.grid).hash(&mut hasher);
        for Placed { piece, elements, .. } in &self.pieces {
            (&piece.offsets, &piece.sizes).hash(&mut hasher);
            below.identify(piece.at..piece.at + elements * self.element_bytes, hasher);
        }
    }

    /// A row of cells, so that each is read once.
    fn tile_bytes(&self) -> Option<u64> {
        let rows = self.pieces.iter().filter_map(|placed| placed.piece.sizes.first()).max()?;
        let row = self.shape.get(1..)?.iter().product::<u64>() * self.element_bytes;
        self.grid.as_ref()?.are_compressed.then(|| rows.saturating_mul(row).min(MAX_TILE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{ArrangedSource, BytesSource};

    fn piece(offsets: &[u64], sizes: &[u64]) -> Piece {
        Piece { offsets: offsets.to_vec(), sizes: sizes.to_vec(), at: 0 }
    }

    /// Stores the pieces of a tensor of consecutive numbers, and reads it back in all ranges.
    fn assert_assembles(shape: &[u64], pieces: Vec<Piece>) {
        assert_reads(shape, pieces, |pieces| Assembled::new(shape, 2, pieces).unwrap());
    }

    fn assert_reads(shape: &[u64], mut pieces: Vec<Piece>, assembled: impl Fn(Vec<Piece>) -> Assembled) {
        let mut stored: Vec<u8> = vec![0xee; 3];
        for piece in &mut pieces {
            piece.at = stored.len() as u64;
            let placed = Placed::new(piece.clone(), shape);
            for own in 0..placed.elements {
                stored.extend(placed.element(own, shape).map_or([0xee; 2], |place| (place as u16).to_le_bytes()));
            }
        }
        let total: u64 = shape.iter().product();
        let mut source = ArrangedSource::new(Box::new(BytesSource(stored)));
        let start = source.add(Box::new(assembled(pieces))).unwrap();
        let wanted: Vec<u8> = (0..total as u16).flat_map(u16::to_le_bytes).collect();
        for from in 0..wanted.len() {
            for to in from..=wanted.len() {
                let found = source.view(start + from as u64..start + to as u64).unwrap();
                assert_eq!(&*found, &wanted[from..to], "{shape:?} {from}..{to}");
            }
        }
    }

    #[test]
    fn any_tiling_is_put_together() {
        assert_assembles(&[5, 3], vec![piece(&[2, 0], &[3, 3]), piece(&[0, 0], &[2, 3])]);
        assert_assembles(&[3, 5], vec![piece(&[0, 0], &[3, 2]), piece(&[0, 2], &[3, 3])]);
        let grid = [(0, 0, 2, 2), (0, 2, 2, 3), (2, 0, 1, 2), (2, 2, 1, 3)];
        assert_assembles(&[3, 5], grid.map(|(a, b, c, d)| piece(&[a, b], &[c, d])).to_vec());
        // Four boxes around a fifth.
        let spiral = [(0, 0, 1, 2), (0, 2, 2, 1), (2, 1, 1, 2), (1, 0, 2, 1), (1, 1, 1, 1)];
        assert_assembles(&[3, 3], spiral.map(|(a, b, c, d)| piece(&[a, b], &[c, d])).to_vec());
        let cube = [(0, 0, 0, 2, 1, 3), (0, 1, 0, 2, 1, 2), (0, 1, 2, 2, 1, 1)];
        assert_assembles(&[2, 2, 3], cube.map(|(a, b, c, d, e, f)| piece(&[a, b, c], &[d, e, f])).to_vec());
        assert_assembles(&[4], vec![piece(&[0], &[4])]);
        assert_assembles(&[], vec![piece(&[], &[])]);
    }

    /// All matrices of up to 4 × 4 elements, cut at every row and then at every column, differently above and below.
    #[test]
    fn every_small_tiling_is_put_together() {
        for (rows, cols) in (1..=4).flat_map(|rows| (1..=4).map(move |cols| (rows, cols))) {
            for (cut, above, below) in
                (1..=rows).flat_map(|a| (1..=cols).flat_map(move |b| (1..=cols).map(move |c| (a, b, c))))
            {
                let boxes = [
                    (0, 0, cut, above),
                    (0, above, cut, cols - above),
                    (cut, 0, rows - cut, below),
                    (cut, below, rows - cut, cols - below),
                ];
                let filled = boxes.into_iter().filter(|(_, _, height, width)| height * width > 0);
                assert_assembles(&[rows, cols], filled.map(|(a, b, c, d)| piece(&[a, b], &[c, d])).collect());
            }
        }
    }

    /// All grids of cells over these matrices.
    #[test]
    fn every_small_grid_of_cells_is_put_together() {
        for (rows, cols) in (1..=4u64).flat_map(|rows| (1..=4u64).map(move |cols| (rows, cols))) {
            for (height, width) in (1..=5u64).flat_map(|height| (1..=5u64).map(move |width| (height, width))) {
                let starts = |end: u64, step: u64| (0..end).step_by(step as usize);
                let cells = starts(rows, height).flat_map(|a| starts(cols, width).map(move |b| (a, b)));
                let pieces: Vec<_> = cells.map(|(a, b)| piece(&[a, b], &[height, width])).collect();
                for are_compressed in [false, true] {
                    let grid = Cells { fill: Vec::new(), are_compressed };
                    assert_reads(&[rows, cols], pieces.clone(), |pieces| {
                        Assembled::of_cells(&[rows, cols], 2, pieces, grid.clone()).unwrap()
                    });
                }
            }
        }
    }

    #[test]
    fn cells_of_a_grid_may_reach_over_the_end() {
        let shape = [4, 3, 5];
        for cell in [[1, 1, 1], [2, 2, 2], [4, 3, 5], [3, 1, 4], [1, 3, 5], [2, 4, 3], [9, 9, 9], [1, 7, 9]] {
            for are_compressed in [false, true] {
                let starts = |axis: usize| (0..shape[axis]).step_by(cell[axis] as usize);
                let rows = starts(0).flat_map(|a| starts(1).map(move |b| (a, b)));
                let mut pieces: Vec<Piece> =
                    rows.flat_map(|(a, b)| starts(2).map(move |c| piece(&[a, b, c], &cell))).collect();
                pieces.push(piece(&[4, 0, 0], &cell));
                pieces.reverse();
                assert_reads(&shape, pieces, |pieces| {
                    Assembled::of_cells(&shape, 2, pieces, Cells { fill: Vec::new(), are_compressed }).unwrap()
                });
            }
        }
    }

    #[test]
    fn elements_of_missing_cells_are_the_fill_value() {
        for (fill, wanted) in [(vec![3, 4], [1, 2, 3, 4, 3, 4]), (Vec::new(), [1, 2, 0, 0, 0, 0])] {
            let cells = Cells { fill, are_compressed: false };
            let assembled = Assembled::of_cells(&[3], 2, vec![piece(&[0], &[1])], cells).unwrap();
            let mut out = [0xee; 6];
            assembled.read_at(&BytesSource(vec![1, 2]), 0, &mut out).unwrap();
            assert_eq!(out, wanted);
        }
    }

    #[test]
    fn overlaps_holes_and_pieces_outside_are_refused() {
        let why = |shape: &[u64], pieces: Vec<Piece>| Assembled::new(shape, 2, pieces).unwrap_err().to_string();
        assert!(why(&[4], vec![piece(&[0], &[2])]).contains("lack 2"));
        assert!(why(&[4], vec![]).contains("lack 4"));
        assert!(why(&[4], vec![piece(&[0], &[3]), piece(&[2], &[2])]).contains("overlaps"));
        // As many elements as the tensor has, one of them twice.
        assert!(why(&[2, 2], vec![piece(&[0, 0], &[1, 2]), piece(&[0, 0], &[2, 1])]).contains("overlaps"));
        assert!(why(&[4], vec![piece(&[3], &[2])]).contains("not inside"));
        assert!(why(&[4], vec![piece(&[u64::MAX], &[2])]).contains("not inside"));
        assert!(why(&[4], vec![piece(&[0, 0], &[4, 1])]).contains("not inside"));
        assert!(Assembled::new(&[u64::MAX, 3], 2, Vec::new()).is_err());
    }
}
