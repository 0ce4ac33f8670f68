//! Random access to the front matter of a file: small reads at any offset, from pages that are kept for a while.

use std::cell::RefCell;
use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// Bytes of a page.
const PAGE_BYTES: u64 = 16 << 10;
/// Pages that are kept.
const KEPT_PAGES: usize = 16;

/// A source that is read in pages.
pub(super) struct Pages<'s> {
    source: &'s dyn Source,
    /// The offset of the first byte in the source.
    start: u64,
    len: u64,
    kept: RefCell<Kept>,
}

/// The pages read last, by their numbers, and the place of the next.
#[derive(Default)]
struct Kept {
    pages: Vec<(u64, Vec<u8>)>,
    next: usize,
}

impl<'s> Pages<'s> {
    pub(super) fn new(source: &'s dyn Source) -> Self {
        Self::within(source, 0..source.own_len())
    }

    /// The bytes of a range of a source, as a file of their own.
    pub(super) fn within(source: &'s dyn Source, range: Range<u64>) -> Self {
        Self { source, start: range.start, len: range.end - range.start, kept: RefCell::default() }
    }

    /// The offset of the first byte in the source.
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// The length of the file.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Checks that a range of so many bytes is inside the file, and returns its end.
    pub(super) fn check(&self, at: u64, bytes: u64) -> Result<u64> {
        match at.checked_add(bytes).filter(|&end| end <= self.len) {
            Some(end) => Ok(end),
            None => Err(AnamnesisError::parse(format!(
                "{bytes} bytes at {at} were expected, the file ends at byte {}",
                self.len
            ))),
        }
    }

    /// Fills a buffer from an offset.
    pub(super) fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.check(at, out.len() as u64)?;
        if out.len() as u64 > PAGE_BYTES {
            return self.source.read_at(self.start + at, out);
        }
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            let taken = self.with_page(at / PAGE_BYTES, |page| {
                let from = page.get((at % PAGE_BYTES) as usize..).unwrap_or_default();
                let taken = from.len().min(rest.len());
                rest[..taken].copy_from_slice(&from[..taken]);
                taken
            })?;
            at += taken as u64;
            rest = rest.split_at_mut(taken).1;
        }
        Ok(())
    }

    fn with_page<T>(&self, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let kept = &mut *self.kept.borrow_mut();
        if let Some((_, page)) = kept.pages.iter().find(|(known, _)| *known == number) {
            return Ok(read(page));
        }
        let start = number * PAGE_BYTES;
        let bytes = PAGE_BYTES.min(self.len - start) as usize;
        if kept.pages.len() < KEPT_PAGES {
            kept.pages.push((number, Vec::new()));
            kept.next = kept.pages.len() - 1;
        }
        let (place, page) = &mut kept.pages[kept.next];
        // No page has this number if reading fails.
        *place = u64::MAX;
        page.resize(bytes, 0);
        self.source.read_at(self.start + start, page)?;
        *place = number;
        kept.next = (kept.next + 1) % KEPT_PAGES;
        Ok(read(page))
    }

    /// The bytes of a range, which the caller has charged to its budget.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let bytes = range.end.saturating_sub(range.start);
        self.check(range.start, bytes)?;
        let mut out = vec![0; bytes as usize];
        self.fill(range.start, &mut out)?;
        Ok(out)
    }

    pub(super) fn array<const BYTES: usize>(&self, at: u64) -> Result<[u8; BYTES]> {
        let mut out = [0; BYTES];
        self.fill(at, &mut out)?;
        Ok(out)
    }

    pub(super) fn u8(&self, at: u64) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(at)?))
    }

    pub(super) fn u16(&self, at: u64) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(at)?))
    }

    pub(super) fn u32(&self, at: u64) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(at)?))
    }

    pub(super) fn u64(&self, at: u64) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    #[test]
    fn reads_cross_pages_and_stay_inside_the_file() {
        let bytes: Vec<u8> = (0..PAGE_BYTES * 20 + 5).map(|at| (at % 251) as u8).collect();
        let source = BytesSource(bytes.as_slice());
        let pages = Pages::new(&source);
        for at in [0, 7, PAGE_BYTES - 3, PAGE_BYTES * 20 - 4, PAGE_BYTES * 20 - 3, 0, 5] {
            let from = at as usize;
            assert_eq!(pages.array::<8>(at).unwrap(), bytes[from..from + 8], "{at}");
        }
        for number in 0..20 {
            assert_eq!(pages.u8(number * PAGE_BYTES).unwrap(), bytes[(number * PAGE_BYTES) as usize]);
        }
        assert_eq!(pages.read(3..PAGE_BYTES * 3).unwrap(), bytes[3..PAGE_BYTES as usize * 3]);
        for at in [PAGE_BYTES * 20 - 2, PAGE_BYTES * 20 + 5, u64::MAX] {
            assert!(pages.array::<8>(at).is_err(), "{at}");
        }
    }
}
