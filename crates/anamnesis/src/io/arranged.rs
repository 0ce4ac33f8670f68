//! A source followed by regions: computed byte ranges, such as an inflated archive entry or a transposed array.
//! Extents refer to both alike.

use std::borrow::Cow;
use std::fs::File;
use std::hash::Hasher;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Source;
use super::source::{past_end, usize_of};
use crate::error::{AnamnesisError, Result};

/// A computed byte range.
pub(crate) trait Region: Send + Sync {
    fn len(&self) -> u64;

    /// Fills `buffer` from `offset`; the range is inside the region. `below` is the arranged source itself, so that a
    /// region may read from regions added before it.
    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Hashes the identity of the bytes of `range`: the stored bytes they are computed from, and how. The offset of
    /// the region is not part of it, as it depends on the other regions.
    fn identify(&self, below: &dyn Source, range: Range<u64>, hasher: &mut dyn Hasher);

    /// Offset of the same bytes in the underlying source, if they are stored contiguously. Whoever reads them there
    /// must pass them to [`verify`](Self::verify).
    fn stored_at(&self) -> Option<u64> {
        None
    }

    /// Verifies bytes of the region from `offset` on, for example against a checksum.
    fn verify(&self, below: &dyn Source, offset: u64, bytes: &[u8]) -> Result<()> {
        let _ = (below, offset, bytes);
        Ok(())
    }

    /// Whether random access is expensive.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Preferred number of bytes per read.
    fn tile_bytes(&self) -> Option<u64> {
        None
    }
}

/// A source and the regions behind it.
pub(crate) struct ArrangedSource {
    inner: Box<dyn Source>,
    /// Regions with their offsets, in order.
    regions: Vec<(u64, Box<dyn Region>)>,
    end: u64,
}

impl ArrangedSource {
    pub(crate) fn new(inner: Box<dyn Source>) -> Self {
        let end = inner.len();
        Self { inner, regions: Vec::new(), end }
    }

    /// Adds a region and returns its offset.
    pub(crate) fn add(&mut self, region: Box<dyn Region>) -> Result<u64> {
        let start = self.end;
        self.end = start
            .checked_add(region.len())
            .ok_or_else(|| AnamnesisError::parse("the tensors of this file take more than 2^64 bytes"))?;
        self.regions.push((start, region));
        Ok(start)
    }

    /// The region that contains `range`, and its offset.
    fn region(&self, range: &Range<u64>) -> Option<(u64, &dyn Region)> {
        let index = self.regions.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
        let (start, region) = &self.regions[index];
        (range.end <= start + region.len()).then_some((*start, &**region))
    }

    fn is_inner(&self, range: &Range<u64>) -> bool {
        range.end <= self.inner.len()
    }

    /// The stored bytes of a region's range, with the region and the offset in it.
    fn stored_range(&self, range: &Range<u64>) -> Option<(Range<u64>, &dyn Region, u64)> {
        let (start, region) = self.region(range)?;
        let offset = range.start - start;
        let from = region.stored_at()? + offset;
        Some((from..from + (range.end - range.start), region, offset))
    }
}

impl Source for ArrangedSource {
    fn len(&self) -> u64 {
        self.end
    }

    fn own_len(&self) -> u64 {
        self.inner.own_len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        if self.is_inner(&range) {
            return self.inner.read_at(offset, buffer);
        }
        match self.region(&range) {
            Some((start, region)) => region.read_at(self, offset - start, buffer),
            None => Err(past_end(offset, buffer.len(), self.end)),
        }
    }

    fn identify(&self, range: Range<u64>, hasher: &mut dyn Hasher) {
        match self.region(&range) {
            Some((start, region)) if !self.is_inner(&range) => {
                region.identify(self, range.start - start..range.end - start, hasher);
            }
            _ => self.inner.identify(range, hasher),
        }
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        let stored = |range: &Range<u64>| match self.is_inner(range) {
            true => Some(range.clone()),
            false => self.stored_range(range).map(|(range, ..)| range),
        };
        self.inner.announce(&ranges.iter().filter_map(stored).collect::<Vec<_>>());
    }

    fn path(&self) -> Option<&Path> {
        self.inner.path()
    }

    fn paths(&self) -> Vec<&Path> {
        self.inner.paths()
    }

    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        if self.is_inner(&range) { self.inner.file(range) } else { None }
    }

    fn is_stored(&self, range: Range<u64>) -> bool {
        self.is_inner(&range) || self.stored_range(&range).is_some()
    }

    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        if self.is_inner(&range) {
            return self.inner.resident(range);
        }
        let (place, region, offset) = self.stored_range(&range)?;
        let bytes = self.inner.resident(place)?;
        // `read_at` reports the error.
        region.verify(self, offset, bytes).ok().map(|()| bytes)
    }

    fn view(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if self.is_inner(&range) {
            return self.inner.view(range);
        }
        if let Some((place, region, offset)) = self.stored_range(&range) {
            let bytes = self.inner.view(place)?;
            region.verify(self, offset, &bytes)?;
            return Ok(bytes);
        }
        let bytes = usize_of(range.end.saturating_sub(range.start))?;
        if self.region(&range).is_none() {
            return Err(past_end(range.start, bytes, self.end));
        }
        let mut bytes = vec![0; bytes];
        self.read_at(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn is_sequential(&self, range: Range<u64>) -> bool {
        !self.is_inner(&range) && self.region(&range).is_some_and(|(_, region)| region.is_sequential())
    }

    fn tile_bytes(&self, range: Range<u64>) -> Option<u64> {
        if self.is_inner(&range) { None } else { self.region(&range)?.1.tile_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::*;

    /// The bytes of a range in reverse.
    struct Backwards(Range<u64>);

    impl Region for Backwards {
        fn len(&self) -> u64 {
            self.0.end - self.0.start
        }

        fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
            let end = self.0.end - offset;
            below.read_at(end - buffer.len() as u64, buffer)?;
            buffer.reverse();
            Ok(())
        }

        fn identify(&self, below: &dyn Source, range: Range<u64>, hasher: &mut dyn Hasher) {
            hasher.write(b"backwards");
            below.identify(self.0.end - range.end..self.0.end - range.start, hasher);
        }
    }

    #[test]
    fn regions_follow_the_file_and_may_read_one_another() {
        let mut source = ArrangedSource::new(Box::new(BytesSource(b"abcdef")));
        let first = source.add(Box::new(Backwards(1..4))).unwrap();
        let second = source.add(Box::new(Backwards(first..first + 3))).unwrap();
        assert_eq!((first, second, source.len(), source.own_len()), (6, 9, 12, 6));
        let read = |range: Range<u64>| source.view(range).map(Cow::into_owned);
        assert_eq!(read(0..6).unwrap(), b"abcdef");
        assert_eq!(read(6..9).unwrap(), b"dcb");
        assert_eq!(read(10..12).unwrap(), b"cd");
        assert!(source.resident(6..9).is_none());
        for outside in [4..8, 8..10, 12..13, u64::MAX - 1..u64::MAX] {
            assert!(read(outside.clone()).is_err(), "{outside:?}");
        }
    }
}
