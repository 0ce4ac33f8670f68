//! Several sources as one: the files of a checkpoint whose tensors are described by the first of them.

use std::borrow::Cow;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Source;
use super::source::past_end;
use crate::error::{AnamnesisError, Result};

/// Sources one after the other. A range belongs to one of them; none is read across their borders.
pub(crate) struct JoinedSource {
    /// The sources with their offsets, in order.
    parts: Vec<(u64, Box<dyn Source>)>,
    end: u64,
}

impl JoinedSource {
    pub(crate) fn new(first: Box<dyn Source>) -> Self {
        let end = first.len();
        Self { parts: vec![(0, first)], end }
    }

    /// Adds a source and returns its offset.
    pub(crate) fn add(&mut self, source: Box<dyn Source>) -> Result<u64> {
        let start = self.end;
        self.end = start
            .checked_add(source.len())
            .ok_or_else(|| AnamnesisError::parse("the files take more than 2^64 bytes together"))?;
        self.parts.push((start, source));
        Ok(start)
    }

    /// The source that contains `range`, its index, and the range inside it.
    fn part(&self, range: &Range<u64>) -> Option<(usize, &dyn Source, Range<u64>)> {
        let mut index = self.parts.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
        // An empty range at a border belongs to either side, and empty sources contain nothing.
        let is_outside = |index: usize| range.end > self.parts[index].0 + self.parts[index].1.len();
        while index > 0 && range.is_empty() && is_outside(index) {
            index -= 1;
        }
        let (start, source) = &self.parts[index];
        (!is_outside(index)).then(|| (index, &**source, range.start - start..range.end - start))
    }
}

impl Source for JoinedSource {
    fn len(&self) -> u64 {
        self.end
    }

    fn own_len(&self) -> u64 {
        self.end
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.part(&(offset..offset.saturating_add(buffer.len() as u64))) {
            Some((_, source, range)) => source.read_at(range.start, buffer),
            None => Err(past_end(offset, buffer.len(), self.end)),
        }
    }

    fn identify(&self, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        match self.part(&range) {
            Some((index, source, range)) => {
                index.hash(&mut hasher);
                source.identify(range, hasher);
            }
            None => range.hash(&mut hasher),
        }
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        let mut of_parts = vec![Vec::new(); self.parts.len()];
        for (index, _, range) in ranges.iter().filter_map(|range| self.part(range)) {
            of_parts[index].push(range);
        }
        for ((_, source), ranges) in self.parts.iter().zip(of_parts).filter(|(_, ranges)| !ranges.is_empty()) {
            source.announce(&ranges);
        }
    }

    fn path(&self) -> Option<&Path> {
        self.parts.first()?.1.path()
    }

    fn paths(&self) -> Vec<&Path> {
        self.parts.iter().flat_map(|(_, source)| source.paths()).collect()
    }

    fn is_sequential(&self, range: Range<u64>) -> bool {
        self.part(&range).is_some_and(|(_, source, range)| source.is_sequential(range))
    }

    fn tile_bytes(&self, range: Range<u64>) -> Option<u64> {
        let (_, source, range) = self.part(&range)?;
        source.tile_bytes(range)
    }

    fn is_stored(&self, range: Range<u64>) -> bool {
        self.part(&range).is_some_and(|(_, source, range)| source.is_stored(range))
    }

    fn file(&self, range: Range<u64>) -> Option<(Arc<File>, u64)> {
        let (_, source, range) = self.part(&range)?;
        source.file(range)
    }

    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        let (_, source, range) = self.part(&range)?;
        source.resident(range)
    }

    fn view(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self.part(&range) {
            Some((_, source, range)) => source.view(range),
            None => Err(past_end(range.start, 0, self.end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::*;

    /// All triples of sources of up to three bytes, and all ranges.
    #[test]
    fn every_range_of_small_sources_belongs_to_the_one_that_contains_it() {
        for sizes in (0..64).map(|case| [case % 4, case / 4 % 4, case / 16]) {
            let bytes = |from: usize, count: usize| (from..from + count).map(|byte| byte as u8).collect::<Vec<_>>();
            let mut joined = JoinedSource::new(Box::new(BytesSource(bytes(0, sizes[0]))));
            let mut starts = vec![0];
            for &size in &sizes[1..] {
                let start = joined.len() as usize;
                starts.push(joined.add(Box::new(BytesSource(bytes(start, size)))).unwrap() as usize);
            }
            let total = sizes.iter().sum::<usize>();
            for (from, to) in (0..=total + 1).flat_map(|from| (from..=total + 1).map(move |to| (from, to))) {
                let holds = |index: usize| starts[index] <= from && to <= starts[index] + sizes[index];
                let found = joined.view(from as u64..to as u64);
                match (0..3).any(holds) {
                    true => assert_eq!(*found.unwrap(), bytes(from, to - from), "{sizes:?} {from}..{to}"),
                    false => assert!(found.is_err(), "{sizes:?} {from}..{to}"),
                }
            }
        }
    }

    #[test]
    fn sources_follow_one_another_and_are_not_read_across_their_borders() {
        let mut joined = JoinedSource::new(Box::new(BytesSource(b"abc")));
        assert_eq!(joined.add(Box::new(BytesSource(b""))).unwrap(), 3);
        assert_eq!(joined.add(Box::new(BytesSource(b"defg"))).unwrap(), 3);
        let read = |range: Range<u64>| joined.view(range).map(Cow::into_owned);
        assert_eq!(joined.len(), 7);
        assert_eq!(read(0..3).unwrap(), b"abc");
        assert_eq!(read(3..7).unwrap(), b"defg");
        assert_eq!(read(5..6).unwrap(), b"f");
        assert_eq!(read(7..7).unwrap(), b"");
        let mut buffer = [0; 2];
        assert!(joined.read_at(2, &mut buffer).is_err());
        assert!(joined.read_at(6, &mut buffer).is_err());
        joined.read_at(3, &mut buffer).unwrap();
        assert_eq!(&buffer, b"de");
    }
}
