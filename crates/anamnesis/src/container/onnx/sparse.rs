//! Sparse tensors in dense form: zeros, and the stored values at their indices.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Bytes of an index.
const INDEX_BYTES: u64 = 8;
/// Values that are read at a time.
const PIECE_VALUES: u64 = 4096;

/// A sparse tensor.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    /// Offset of the indices: I64, one per value, or one per value and dimension.
    pub(super) indices: u64,
    /// Whether there is an index per dimension.
    pub(super) has_coordinates: bool,
    /// Offset of the values.
    pub(super) values: u64,
    pub(super) count: u64,
    pub(super) dims: Vec<u64>,
    pub(super) elements: u64,
    pub(super) element_bytes: u64,
}

impl Dense {
    /// Checks that all indices are inside the tensor and ascend.
    pub(super) fn check(&self, source: &dyn Source) -> Result<()> {
        let mut last = None;
        let mut at = 0;
        while at < self.count {
            let piece = at..self.count.min(at + PIECE_VALUES);
            for place in self.places(source, &piece)? {
                if last.is_some_and(|last| place <= last) {
                    return Err(AnamnesisError::parse("the indices of its values do not ascend"));
                }
                last = Some(place);
            }
            at = piece.end;
        }
        Ok(())
    }

    /// The elements at which some of the values are.
    fn places(&self, source: &dyn Source, values: &Range<u64>) -> Result<Vec<u64>> {
        let per_value = if self.has_coordinates { self.dims.len() } else { 1 };
        let stride = per_value as u64 * INDEX_BYTES;
        let mut bytes = vec![0; ((values.end - values.start) * stride) as usize];
        source.read_at(self.indices + values.start * stride, &mut bytes)?;
        let outside = |index: u64| AnamnesisError::parse(format!("an index of its values is {}", index.cast_signed()));
        let numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let dims = if self.has_coordinates { &self.dims[..] } else { std::slice::from_ref(&self.elements) };
        let place = |index: &[u64]| {
            index.iter().zip(dims).try_fold(0, |place, (&index, &dim)| match index < dim {
                true => Ok(place * dim + index),
                false => Err(outside(index)),
            })
        };
        numbers.chunks_exact(per_value.max(1)).map(place).collect()
    }

    /// The first value at or behind an element.
    fn first_value(&self, source: &dyn Source, element: u64) -> Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.places(source, &(middle..middle + 1))?.first() {
                Some(place) if *place < element => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }
}

impl Region for Dense {
    fn len(&self) -> u64 {
        self.elements * self.element_bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        let (width, end) = (self.element_bytes, offset + buffer.len() as u64);
        let mut at = self.first_value(below, offset / width)?;
        while at < self.count {
            let piece = at..self.count.min(at + PIECE_VALUES);
            let places = self.places(below, &piece)?;
            let mut values = vec![0; ((piece.end - piece.start) * width) as usize];
            below.read_at(self.values + piece.start * width, &mut values)?;
            for (place, value) in places.iter().zip(values.chunks_exact(width as usize)) {
                let start = place * width;
                if start >= end {
                    return Ok(());
                }
                for (byte, index) in value.iter().zip(start..) {
                    if let Some(out) = index.checked_sub(offset).and_then(|index| buffer.get_mut(index as usize)) {
                        *out = *byte;
                    }
                }
            }
            at = piece.end;
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        let Self { has_coordinates, count, dims, element_bytes, .. } = self;
        ("sparse", &range, has_coordinates, count, dims, element_bytes).hash(&mut hasher);
        let per_value = if *has_coordinates { dims.len() as u64 } else { 1 };
        below.identify(self.indices..self.indices + count * per_value * INDEX_BYTES, hasher);
        below.identify(self.values..self.values + count * element_bytes, hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{ArrangedSource, BytesSource};

    fn source(indices: &[i64], values: &[u16]) -> (BytesSource<Vec<u8>>, u64) {
        let mut bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let start = bytes.len() as u64;
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        (BytesSource(bytes), start)
    }

    fn dense(indices: &[i64], values: &[u16], dims: &[u64], has_coordinates: bool) -> Result<Vec<u16>> {
        let (source, start) = source(indices, values);
        let (count, elements) = (values.len() as u64, dims.iter().product());
        let region = Dense {
            indices: 0,
            has_coordinates,
            values: start,
            count,
            dims: dims.to_vec(),
            elements,
            element_bytes: 2,
        };
        region.check(&source)?;
        let mut arranged = ArrangedSource::new(Box::new(source));
        let at = arranged.add(Box::new(region))?;
        let whole = arranged.view(at..arranged.len())?.into_owned();
        for from in 0..whole.len() as u64 {
            assert_eq!(*arranged.view(at + from..arranged.len())?, whole[from as usize..]);
        }
        Ok(whole.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect())
    }

    #[test]
    fn values_are_placed_by_linear_indices_or_coordinates() {
        assert_eq!(dense(&[1, 4], &[7, 9], &[2, 3], false).unwrap(), [0, 7, 0, 0, 9, 0]);
        assert_eq!(dense(&[0, 1, 1, 1], &[7, 9], &[2, 3], true).unwrap(), [0, 7, 0, 0, 9, 0]);
        assert_eq!(dense(&[], &[], &[3], false).unwrap(), [0, 0, 0]);
    }

    #[test]
    fn indices_outside_or_out_of_order_are_refused() {
        for indices in [[4, 1], [1, 1], [0, 6], [-1, 2]] {
            assert!(dense(&indices, &[7, 9], &[2, 3], false).is_err(), "{indices:?}");
        }
        assert!(dense(&[0, 3], &[7], &[2, 3], true).is_err());
    }
}
