//! A tensor that is stored in pieces: blocks of its elements, each in row-major order.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::Result;
use crate::io::{Region, Source};

/// A block of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Block {
    /// The index of its first element in the tensor.
    pub(super) start: Vec<u64>,
    /// Its shape as stored, which may reach over the end of the tensor.
    pub(super) shape: Vec<u64>,
    /// The offset of its bytes in the source; `None` if all of them are the fill value.
    pub(super) at: Option<u64>,
}

/// A tensor made of blocks that do not overlap.
pub(super) struct Tiled {
    shape: Vec<u64>,
    /// Elements of a step along each dimension.
    strides: Vec<u64>,
    element_bytes: u64,
    /// The blocks in order of their first elements, which are before them.
    blocks: Vec<(Range<u64>, Block)>,
    /// The bytes of an element that is in no block; empty for zeros.
    fill: Vec<u8>,
    /// Whether blocks are expensive to read in part, as compressed ones are.
    reads_whole_blocks: bool,
}

/// The number of elements of a step along each dimension of a shape.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

impl Tiled {
    /// A tensor whose number of bytes is below 2^64, of blocks of its rank. Blocks outside of it are ignored.
    pub(super) fn new(shape: Vec<u64>, element_bytes: u64, blocks: Vec<Block>) -> Self {
        let steps = strides(&shape);
        let is_inside = |block: &Block| block.start.iter().zip(&shape).all(|(start, size)| start < size);
        let is_full = |block: &Block| block.shape.len() == shape.len() && !block.shape.contains(&0);
        let blocks = blocks.into_iter().filter(|block| is_full(block) && is_inside(block));
        let mut blocks: Vec<_> = blocks.map(|block| (span(&block, &shape, &steps), block)).collect();
        blocks.sort_by_key(|(span, _)| span.start);
        Self { shape, strides: steps, element_bytes, blocks, fill: Vec::new(), reads_whole_blocks: false }
    }

    /// Sets the bytes of an element that is in no block.
    pub(super) fn with_fill(mut self, fill: Vec<u8>) -> Self {
        self.fill = fill;
        self
    }

    /// Reads blocks as a whole.
    pub(super) fn with_whole_blocks(mut self, reads_whole_blocks: bool) -> Self {
        self.reads_whole_blocks = reads_whole_blocks;
        self
    }

    fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Copies the elements `wanted` that are in a block into `out`.
    fn copy(&self, below: &dyn Source, block: &Block, wanted: &Range<u64>, out: &mut [u8]) -> Result<()> {
        let rank = self.shape.len();
        let (strides, inner) = (&self.strides, strides(&block.shape));
        let count = |axis: usize| block.shape[axis].min(self.shape[axis].saturating_sub(block.start[axis]));
        let counts: Vec<u64> = (0..rank).map(count).collect();
        let Some(last) = rank.checked_sub(1) else {
            return self.read(below, block, 0, out);
        };
        let first = span(block, &self.shape, strides).start;
        let whole = match (self.reads_whole_blocks, block.at) {
            (true, Some(at)) => {
                let bytes = block.shape.iter().product::<u64>() * self.element_bytes;
                let mut whole = vec![0; bytes as usize];
                below.read_at(at, &mut whole)?;
                Some(whole)
            }
            _ => None,
        };
        // Rows of the block, those along its first dimension that may be wanted.
        let mut index = vec![0; rank];
        index[0] = match rank {
            1 => 0,
            _ => (wanted.start.saturating_sub(first) / strides[0]).saturating_sub(1).min(counts[0] - 1),
        };
        loop {
            let row: u64 = first + index.iter().zip(strides).map(|(place, stride)| place * stride).sum::<u64>();
            if row >= wanted.end {
                return Ok(());
            }
            let (from, until) = (row.max(wanted.start), (row + counts[last]).min(wanted.end));
            if from < until {
                let inside: u64 =
                    index.iter().zip(&inner).map(|(place, stride)| place * stride).sum::<u64>() + (from - row);
                let place = |element: u64| (element * self.element_bytes) as usize;
                let out = &mut out[place(from - wanted.start)..place(until - wanted.start)];
                match &whole {
                    Some(whole) => {
                        let bytes = whole.get(place(inside)..place(inside) + out.len()).unwrap_or_default();
                        if bytes.len() == out.len() {
                            out.copy_from_slice(bytes);
                        }
                    }
                    None => self.read(below, block, inside, out)?,
                }
            }
            // The next row, in row-major order.
            let mut axis = last;
            loop {
                let Some(before) = axis.checked_sub(1) else { return Ok(()) };
                axis = before;
                index[axis] += 1;
                if index[axis] < counts[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }

    fn read(&self, below: &dyn Source, block: &Block, inside: u64, out: &mut [u8]) -> Result<()> {
        match block.at {
            Some(at) => below.read_at(at + inside * self.element_bytes, out),
            None => {
                self.fill_with_default(out);
                Ok(())
            }
        }
    }

    fn fill_with_default(&self, out: &mut [u8]) {
        match self.fill.len() as u64 == self.element_bytes {
            true => out.chunks_mut(self.fill.len()).for_each(|element| {
                element.copy_from_slice(&self.fill[..element.len()]);
            }),
            false => out.fill(0),
        }
    }
}

impl Region for Tiled {
    fn len(&self) -> u64 {
        self.elements() * self.element_bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let each = self.element_bytes;
        let end = offset + buffer.len() as u64;
        let wanted = offset / each..end.div_ceil(each);
        if !offset.is_multiple_of(each) || !end.is_multiple_of(each) {
            // Parts of elements are taken from whole ones.
            let mut whole = vec![0; ((wanted.end - wanted.start) * each) as usize];
            self.read_at(below, wanted.start * each, &mut whole)?;
            let from = (offset - wanted.start * each) as usize;
            buffer.copy_from_slice(&whole[from..from + buffer.len()]);
            return Ok(());
        }
        self.fill_with_default(buffer);
        // Blocks are sorted by their first elements.
        let end = self.blocks.partition_point(|(span, _)| span.start < wanted.end);
        for (_, block) in self.blocks[..end].iter().filter(|(span, _)| span.end > wanted.start) {
            self.copy(below, block, &wanted, buffer)?;
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        (&self.shape, self.element_bytes, &self.fill, &range).hash(&mut hasher);
        for (_, block) in &self.blocks {
            (&block.start, &block.shape).hash(&mut hasher);
            if let Some(at) = block.at {
                below.identify(at..at + block.shape.iter().product::<u64>() * self.element_bytes, hasher);
            }
        }
    }

    /// A row of blocks, so that each is read once.
    fn tile_bytes(&self) -> Option<u64> {
        let rows = self.blocks.iter().filter_map(|(_, block)| block.shape.first()).max()?;
        let row = self.shape.get(1..)?.iter().product::<u64>() * self.element_bytes;
        self.reads_whole_blocks.then(|| rows.saturating_mul(row).min(MAX_TILE_BYTES))
    }
}

/// The elements of a tensor from the first to the last that is in a block.
fn span(block: &Block, shape: &[u64], strides: &[u64]) -> Range<u64> {
    let first: u64 = block.start.iter().zip(strides).map(|(start, stride)| start * stride).sum();
    let last = |axis: usize| block.shape[axis].min(shape[axis].saturating_sub(block.start[axis])).saturating_sub(1);
    first..first + strides.iter().enumerate().map(|(axis, stride)| last(axis) * stride).sum::<u64>() + 1
}

/// Maximum preferred bytes of a read.
const MAX_TILE_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    /// A tensor of two-byte elements in blocks, and its bytes.
    fn tiled(shape: [u64; 3], block: [u64; 3], reads_whole_blocks: bool) -> (Tiled, Vec<u8>, Vec<u8>) {
        let elements: u64 = shape.iter().product();
        let plain: Vec<u8> = (0..elements).flat_map(|number| (number as u16 * 7 + 1).to_le_bytes()).collect();
        let (mut stored, mut blocks) = (Vec::new(), Vec::new());
        let starts = |axis: usize| (0..shape[axis]).step_by(block[axis] as usize);
        for (a, b) in starts(0).flat_map(|a| starts(1).map(move |b| (a, b))) {
            for c in starts(2) {
                blocks.push(Block { start: vec![a, b, c], shape: block.to_vec(), at: Some(stored.len() as u64) });
                for place in 0..block.iter().product::<u64>() {
                    let (i, j, k) =
                        (place / block[2] / block[1] + a, place / block[2] % block[1] + b, place % block[2] + c);
                    let at = ((i * shape[1] + j) * shape[2] + k) as usize * 2;
                    let is_inside = i < shape[0] && j < shape[1] && k < shape[2];
                    stored.extend(if is_inside { [plain[at], plain[at + 1]] } else { [0xee, 0xee] });
                }
            }
        }
        blocks.reverse();
        let tiled = Tiled::new(shape.to_vec(), 2, blocks).with_whole_blocks(reads_whole_blocks);
        (tiled, stored, plain)
    }

    #[test]
    fn every_range_has_the_bytes_of_the_whole() {
        for block in [[1, 1, 1], [2, 2, 2], [4, 3, 5], [3, 1, 4], [1, 3, 5], [2, 4, 3]] {
            for reads_whole_blocks in [false, true] {
                let (tiled, stored, plain) = tiled([4, 3, 5], block, reads_whole_blocks);
                let source = BytesSource(stored);
                for start in 0..plain.len() {
                    for end in (start + 1..=plain.len()).step_by(7).chain([plain.len()]) {
                        let mut out = vec![0xaa; end - start];
                        tiled.read_at(&source, start as u64, &mut out).unwrap();
                        assert_eq!(out, plain[start..end], "{block:?} {start}..{end}");
                    }
                }
            }
        }
    }

    #[test]
    fn elements_in_no_block_are_the_fill_value() {
        let (mut tiled, stored, _) = tiled([2, 1, 2], [1, 1, 2], false);
        tiled.blocks.truncate(1);
        tiled.fill = vec![3, 4];
        let mut out = [0; 8];
        tiled.read_at(&BytesSource(stored), 0, &mut out).unwrap();
        assert_eq!(out[4..], [3, 4, 3, 4]);
        assert_ne!(out[..4], [3, 4, 3, 4]);
    }
}
