//! A range of a source as a source of its own.

use std::borrow::Cow;
use std::fs::File;
use std::hash::Hasher;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use super::Source;
use super::source::past_end;
use crate::error::Result;

/// The bytes of `source` from `start` on, as many as `bytes`.
pub(crate) struct SlicedSource<P> {
    source: P,
    start: u64,
    bytes: u64,
}

impl<P: Deref<Target: Source>> SlicedSource<P> {
    /// A range of a source; `None` if it is not inside.
    pub(crate) fn new(source: P, start: u64, bytes: u64) -> Option<Self> {
        let is_inside = start.checked_add(bytes).is_some_and(|end| end <= source.len());
        is_inside.then_some(Self { source, start, bytes })
    }

    /// The same range of the whole source.
    fn moved(&self, range: &Range<u64>) -> Option<Range<u64>> {
        (range.end <= self.bytes).then(|| range.start + self.start..range.end + self.start)
    }
}

impl<P: Deref<Target: Source> + Send + Sync> Source for SlicedSource<P> {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.moved(&(offset..offset.saturating_add(buffer.len() as u64))) {
            Some(range) => self.source.read_at(range.start, buffer),
            None => Err(past_end(offset, buffer.len(), self.bytes)),
        }
    }

    fn identify(&self, range: Range<u64>, hasher: &mut dyn Hasher) {
        self.source.identify(range.start.saturating_add(self.start)..range.end.saturating_add(self.start), hasher);
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        self.source.announce(&ranges.iter().filter_map(|range| self.moved(range)).collect::<Vec<_>>());
    }

    fn paths(&self) -> Vec<&Path> {
        self.source.paths()
    }

    fn is_stored(&self, range: Range<u64>) -> bool {
        self.moved(&range).is_some_and(|range| self.source.is_stored(range))
    }

    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        self.source.file(self.moved(&range)?)
    }

    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        self.source.resident(self.moved(&range)?)
    }

    fn view(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self.moved(&range) {
            Some(range) => self.source.view(range),
            None => Err(past_end(range.start, 0, self.bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::*;

    /// All slices of six bytes, and all ranges of them.
    #[test]
    fn every_range_of_every_slice_is_that_of_the_whole() {
        let bytes = b"abcdef";
        let whole = BytesSource(bytes);
        let whole: &dyn Source = &whole;
        for (start, size) in (0..=7).flat_map(|start| (0..=7).map(move |size| (start, size))) {
            let slice = SlicedSource::new(whole, start, size);
            assert_eq!(slice.is_some(), start + size <= 6);
            let Some(slice) = slice else { continue };
            for (from, to) in (0..=7).flat_map(|from| (from..=7).map(move |to| (from, to))) {
                let wanted = (to <= size).then(|| &bytes[(start + from) as usize..(start + to) as usize]);
                assert_eq!(slice.view(from..to).ok().as_deref(), wanted, "{start} {size} {from}..{to}");
                let mut buffer = vec![0; (to - from) as usize];
                assert_eq!(slice.read_at(from, &mut buffer).is_ok(), wanted.is_some());
                assert!(wanted.is_none_or(|wanted| wanted == buffer));
            }
            assert!(slice.view(u64::MAX..u64::MAX).is_err() && slice.read_at(u64::MAX, &mut [0; 2]).is_err());
        }
    }

    #[test]
    fn a_slice_has_its_own_offsets_and_ends_where_it_ends() {
        let whole = BytesSource(b"abcdef");
        let whole: &dyn Source = &whole;
        let slice = SlicedSource::new(whole, 2, 3).unwrap();
        assert_eq!(slice.len(), 3);
        assert_eq!(&*slice.view(0..3).unwrap(), b"cde");
        assert_eq!(slice.resident(1..2), Some(&b"d"[..]));
        let mut buffer = [0; 2];
        assert!(slice.read_at(2, &mut buffer).is_err() && slice.view(2..4).is_err());
        slice.read_at(1, &mut buffer).unwrap();
        assert_eq!(&buffer, b"de");
        assert!(SlicedSource::new(whole, 4, 3).is_none() && SlicedSource::new(whole, u64::MAX, 2).is_none());
    }
}
