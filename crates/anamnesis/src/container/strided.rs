//! Strided views: transposed, sliced and expanded arrays, read in C order.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::catalog::dtype;
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Bytes of one tile if the view transposes the stored order.
const TRANSPOSE_TILE_BYTES: u64 = 4 << 20;
/// Columns transposed per pass, to limit how often the memory of a row is touched.
const COLUMNS_PER_PASS: usize = 16;
/// Bytes read at a time if elements are gathered one by one.
const GATHER_READ_BYTES: usize = 64 << 10;

/// A strided view of stored elements, in C order of its own axes.
#[derive(Debug, Clone)]
pub(crate) struct Strided {
    /// Offset of element 0 in the underlying source.
    base: u64,
    element_bytes: usize,
    /// Bytes to reverse as a unit; 1 if the byte order is already little-endian.
    swap_bytes: usize,
    /// Sizes and strides (in elements) of the axes, without those of size 1 and with adjacent ones merged.
    axes: Vec<Axis>,
    elements: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Axis {
    size: u64,
    stride: u64,
}

impl Strided {
    /// A view of `shape` with `strides` in elements, whose element 0 is at `base`. It may read `stored_bytes` from
    /// there. `swap_bytes` is the width of big-endian numbers in the elements, or 1.
    pub(crate) fn new(
        base: u64,
        stored_bytes: u64,
        element_bytes: usize,
        swap_bytes: usize,
        shape: &[usize],
        strides: &[u64],
    ) -> Result<Self> {
        let too_large =
            || AnamnesisError::parse(format!("a view of shape {shape:?} and strides {strides:?} is too large"));
        if shape.len() != strides.len()
            || element_bytes == 0
            || swap_bytes == 0
            || !element_bytes.is_multiple_of(swap_bytes)
        {
            return Err(AnamnesisError::parse(format!("shape {shape:?} and strides {strides:?} do not match")));
        }
        let elements = dtype::elements(shape).ok_or_else(too_large)?;
        elements.checked_mul(element_bytes as u64).ok_or_else(too_large)?;
        if elements > 0 {
            let last = shape
                .iter()
                .zip(strides)
                .try_fold(0u64, |last, (&size, &stride)| last.checked_add(stride.checked_mul(size as u64 - 1)?));
            let end =
                last.and_then(|last| last.checked_add(1)?.checked_mul(element_bytes as u64)).ok_or_else(too_large)?;
            if end > stored_bytes {
                let why = format!(
                    "a view of shape {shape:?} and strides {strides:?} takes {end} bytes, {stored_bytes} are stored"
                );
                return Err(AnamnesisError::parse(why));
            }
        }
        Ok(Self { base, element_bytes, swap_bytes, axes: merge_axes(shape, strides), elements })
    }

    /// Offset of element `index` of the view in the underlying source.
    fn offset(&self, mut index: u64) -> u64 {
        let mut distance = 0;
        for axis in self.axes.iter().rev() {
            distance += index % axis.size * axis.stride;
            index /= axis.size;
        }
        self.base + distance * self.element_bytes as u64
    }

    /// Offset of the element with the highest address.
    fn last_offset(&self) -> u64 {
        let distance: u64 = self.axes.iter().map(|axis| axis.size.saturating_sub(1) * axis.stride).sum();
        self.base + distance * self.element_bytes as u64
    }

    /// The axis with stride 1.
    fn unit_axis(&self) -> Option<usize> {
        self.axes.iter().rposition(|axis| axis.stride == 1)
    }

    /// Product of the sizes of the axes inside `axis`.
    fn inner_elements(&self, axis: usize) -> u64 {
        self.axes[axis + 1..].iter().map(|axis| axis.size).product()
    }

    fn gather(&self, below: &dyn Source, elements: Range<u64>, out: &mut [u8]) -> Result<()> {
        let Some(unit) = self.unit_axis() else { return self.gather_elements(below, elements, out) };
        let row = self.inner_elements(unit);
        let rows = self.axes[unit].size;
        let mut at = elements.start;
        let mut out = out;
        while at < elements.end {
            // Up to the end of this run along the unit axis, in whole rows if possible.
            let run_end = (at / (row * rows) + 1) * (row * rows);
            let end = run_end.min(elements.end);
            let whole = if at.is_multiple_of(row) { (end - at) / row * row } else { 0 };
            let next = match whole {
                0 => end.min((at / row + 1) * row),
                whole => at + whole,
            };
            let (piece, rest) = std::mem::take(&mut out).split_at_mut((next - at) as usize * self.element_bytes);
            match whole {
                0 => self.gather_elements(below, at..next, piece)?,
                _ if row == 1 => below.read_at(self.offset(at), piece)?,
                whole => self.transpose_rows(below, at, row, whole / row, piece)?,
            }
            (at, out) = (next, rest);
        }
        Ok(())
    }

    /// Reads `count` whole rows of `row` elements from element `start`: each column is contiguous in the source.
    fn transpose_rows(&self, below: &dyn Source, start: u64, row: u64, count: u64, out: &mut [u8]) -> Result<()> {
        let width = self.element_bytes;
        let (row, count) = (row as usize, count as usize);
        let mut columns = vec![0; COLUMNS_PER_PASS.min(row) * count * width];
        for first in (0..row).step_by(COLUMNS_PER_PASS) {
            let taken = COLUMNS_PER_PASS.min(row - first);
            for (index, column) in (first..first + taken).zip(columns.chunks_exact_mut(count * width)) {
                below.read_at(self.offset(start + index as u64), column)?;
            }
            for (index, place) in out[first * width..].chunks_mut(row * width).enumerate() {
                let elements = columns[index * width..].chunks(count * width).take(taken);
                for (place, element) in place.chunks_exact_mut(width).zip(elements) {
                    place.copy_from_slice(&element[..width]);
                }
            }
        }
        Ok(())
    }

    /// Reads elements one by one.
    fn gather_elements(&self, below: &dyn Source, elements: Range<u64>, out: &mut [u8]) -> Result<()> {
        let mut block = Vec::new();
        let mut block_start = 0;
        for (index, place) in elements.zip(out.chunks_exact_mut(self.element_bytes)) {
            let offset = self.offset(index);
            let inside =
                |start: u64, len: usize| offset >= start && offset + self.element_bytes as u64 <= start + len as u64;
            if !inside(block_start, block.len()) {
                let bytes = (below.len() - offset).min(GATHER_READ_BYTES as u64) as usize;
                block.resize(bytes, 0);
                // The rest of the block may not be readable; the element is.
                if below.read_at(offset, &mut block).is_err() {
                    block.resize(self.element_bytes, 0);
                    below.read_at(offset, &mut block)?;
                }
                block_start = offset;
            }
            let at = (offset - block_start) as usize;
            place.copy_from_slice(&block[at..at + self.element_bytes]);
        }
        Ok(())
    }
}

impl Region for Strided {
    fn len(&self) -> u64 {
        self.elements * self.element_bytes as u64
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let width = self.element_bytes as u64;
        let elements = offset / width..(offset + buffer.len() as u64).div_ceil(width);
        if offset.is_multiple_of(width) && buffer.len().is_multiple_of(self.element_bytes) {
            self.gather(below, elements, buffer)?;
            reverse_each(buffer, self.swap_bytes);
            return Ok(());
        }
        // Unaligned request: read whole elements and copy the requested bytes.
        let mut whole = vec![0; (elements.end - elements.start) as usize * self.element_bytes];
        let skip = (offset % width) as usize;
        self.gather(below, elements, &mut whole)?;
        reverse_each(&mut whole, self.swap_bytes);
        buffer.copy_from_slice(&whole[skip..skip + buffer.len()]);
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        let Self { base, element_bytes, swap_bytes, axes, elements } = self;
        ("strided", range, element_bytes, swap_bytes, axes, elements).hash(&mut hasher);
        let end = elements.checked_sub(1).map_or(*base, |_| self.last_offset() + *element_bytes as u64);
        below.identify(*base..end, hasher);
    }

    fn tile_bytes(&self) -> Option<u64> {
        let row_bytes = self.inner_elements(self.unit_axis()?) * self.element_bytes as u64;
        let rows = TRANSPOSE_TILE_BYTES / row_bytes.max(1);
        (row_bytes > self.element_bytes as u64 && rows > 0).then_some(rows * row_bytes)
    }
}

/// The axes without those of size 1, adjacent ones merged where the outer stride spans the inner axis.
fn merge_axes(shape: &[usize], strides: &[u64]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::with_capacity(shape.len());
    for (&size, &stride) in shape.iter().zip(strides) {
        let axis = Axis { size: size as u64, stride };
        match axes.last_mut() {
            _ if size == 1 => {}
            Some(outer) if Some(outer.stride) == stride.checked_mul(axis.size) => {
                *outer = Axis { size: outer.size * axis.size, stride };
            }
            _ => axes.push(axis),
        }
    }
    if axes.is_empty() {
        axes.push(Axis { size: 1, stride: 1 });
    }
    axes
}

/// Reverses the bytes of every word of `width` bytes.
fn reverse_each(bytes: &mut [u8], width: usize) {
    fn reverse_words<const N: usize>(bytes: &mut [u8]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|word| word.reverse());
    }
    match width {
        1 => {}
        2 => reverse_words::<2>(bytes),
        4 => reverse_words::<4>(bytes),
        8 => reverse_words::<8>(bytes),
        width => bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{ArrangedSource, BytesSource};

    /// The definition of a strided view, element by element.
    fn naive(stored: &[u8], width: usize, swap: usize, shape: &[usize], strides: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        let count: usize = shape.iter().product();
        for index in 0..count {
            let (mut rest, mut at) = (index, 0);
            for (&size, &stride) in shape.iter().zip(strides).rev() {
                at += rest % size * stride as usize;
                rest /= size;
            }
            let element = &stored[at * width..][..width];
            out.extend(element.chunks(swap).flat_map(|part| part.iter().rev()));
        }
        out
    }

    #[test]
    fn views_of_any_order_match_the_definition() {
        let stored: Vec<u8> = (0..960u32).flat_map(|number| number.to_le_bytes()).collect();
        let cases: &[(&[usize], &[u64])] = &[
            (&[6, 8], &[8, 1]),
            (&[6, 8], &[1, 6]),
            (&[4, 5, 6], &[1, 4, 20]),
            (&[4, 5, 6], &[30, 1, 5]),
            (&[4, 5, 6], &[5, 1, 20]),
            (&[3, 4], &[0, 1]),
            (&[3, 4], &[1, 0]),
            (&[3, 4], &[0, 0]),
            (&[7, 9], &[30, 2]),
            (&[5], &[3]),
            (&[], &[]),
            (&[1, 1], &[7, 9]),
            (&[0, 3], &[3, 1]),
        ];
        for &(shape, strides) in cases {
            for (width, swap) in [(4, 1), (4, 4), (2, 2), (1, 1), (8, 4), (3, 1)] {
                let wanted = naive(&stored, width, swap, shape, strides);
                let region = Strided::new(0, stored.len() as u64, width, swap, shape, strides).unwrap();
                let mut source = ArrangedSource::new(Box::new(BytesSource(stored.clone())));
                let start = source.add(Box::new(region)).unwrap();
                for (from, to) in
                    [(0, wanted.len()), (wanted.len() / 3, wanted.len()), (1.min(wanted.len()), wanted.len() / 2)]
                {
                    let range = start + from as u64..start + to.max(from) as u64;
                    let found = source.view(range).unwrap();
                    assert_eq!(&*found, &wanted[from..to.max(from)], "{shape:?} {strides:?} {width} {swap}");
                }
            }
        }
    }

    /// All views of up to three axes of up to three elements with strides of up to four, in all ranges of bytes.
    #[test]
    fn every_small_view_matches_the_definition_in_every_range() {
        let stored: Vec<u8> = (0..64).collect();
        for rank in 0..=3u32 {
            for case in 0..(4 * 5usize).pow(rank) {
                let axis = |index: u32| case / (4 * 5usize).pow(index) % 20;
                let shape: Vec<usize> = (0..rank).map(|index| axis(index) % 4).collect();
                let strides: Vec<u64> = (0..rank).map(|index| (axis(index) / 4) as u64).collect();
                let (width, swap) = [(1, 1), (2, 1), (2, 2)][case % 3];
                let wanted = naive(&stored, width, swap, &shape, &strides);
                let region = Strided::new(0, 64, width, swap, &shape, &strides).unwrap();
                let mut source = ArrangedSource::new(Box::new(BytesSource(stored.clone())));
                let start = source.add(Box::new(region)).unwrap();
                let ends = (0..=wanted.len()).flat_map(|from| (from..=wanted.len()).map(move |to| (from, to)));
                // Some of the ranges of the larger views; another case begins elsewhere.
                let step = 1 + wanted.len() / 8;
                for (from, to) in ends.skip(case % step).step_by(step) {
                    let found = source.view(start + from as u64..start + to as u64).unwrap();
                    assert_eq!(&*found, &wanted[from..to], "{shape:?} {strides:?} {width} {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn refuses_views_that_exceed_the_storage_or_overflow() {
        let new = |shape: &[usize], strides: &[u64]| Strided::new(0, 100, 4, 1, shape, strides);
        assert!(new(&[5, 5], &[5, 1]).is_ok());
        assert!(new(&[5, 5], &[6, 1]).is_err());
        assert!(new(&[26], &[1]).is_err());
        assert!(new(&[2], &[u64::MAX]).is_err());
        assert!(new(&[usize::MAX, 2], &[0, 0]).is_err());
        assert!(new(&[2, 2], &[1]).is_err());
    }
}
