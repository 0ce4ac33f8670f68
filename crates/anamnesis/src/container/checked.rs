//! Stored bytes with a CRC as a region that verifies it while it is read. Pieces may be read in any order and by several
//! workers; the CRC is checked when the last piece has been read. Bytes that will only be read in part are checked in
//! one pass before the first of them.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Maximum number of disjoint runs. Beyond this the access is random, and the entry is checked in one pass.
const MAX_RUNS: usize = 64;
/// Bytes hashed at a time in that pass.
const PASS_BYTES: u64 = 256 << 10;

/// Stored bytes with a CRC, such as an entry of an archive.
pub(crate) trait Summed: Send + Sync {
    /// The offset of the bytes in the file, and their number.
    fn place(&self) -> (u64, u64);

    /// The CRC of bytes.
    fn crc(bytes: &[u8]) -> u32;

    /// The CRC of two pieces, from those of the pieces.
    fn combine(first: u32, second: u32, second_bytes: u64) -> u32;

    /// Compares the CRC of all bytes with the one that was written.
    fn check(&self, found: u32) -> Result<()>;
}

/// Whether a checksum is the one that was written. Fuzz targets read past wrong ones: changed bytes would end there.
pub(crate) const fn is_same(found: u32, written: u32) -> bool {
    cfg!(fuzzing) || found == written
}

/// An entry, from some byte on.
pub(crate) struct Checked<E> {
    entry: E,
    /// Offset of the region in the entry.
    start: u64,
    /// Whether the whole region will be read.
    is_incremental: bool,
    state: Mutex<State>,
}

enum State {
    /// Runs read so far, in order, no two adjacent.
    Pending(Vec<Run>),
    Verified,
    /// The error; it is permanent.
    Corrupt(String),
}

#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    crc: u32,
}

impl Run {
    fn merge<E: Summed>(self, next: Self) -> Self {
        Self { end: next.end, crc: E::combine(self.crc, next.crc, next.end - next.start), ..self }
    }
}

impl<E: Summed> Checked<E> {
    /// The entry from byte `start` on, all of which will be read.
    pub(crate) fn incremental(start: u64, entry: E) -> Self {
        Self {
            start: start.min(entry.place().1),
            entry,
            is_incremental: true,
            state: Mutex::new(State::Pending(Vec::new())),
        }
    }

    /// The entry from byte `start` on, some of which may not be read.
    pub(crate) fn upfront(start: u64, entry: E) -> Self {
        Self { is_incremental: false, ..Self::incremental(start, entry) }
    }

    /// The offset of the region in the file.
    fn first(&self) -> u64 {
        self.entry.place().0 + self.start
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the entry, given the CRC of the region.
    fn check_crc_with_prefix(&self, below: &dyn Source, crc: u32) -> Result<State> {
        let head = crc_of_range::<E>(below, self.entry.place().0, self.start)?;
        self.entry.check(E::combine(head, crc, self.len()))?;
        Ok(State::Verified)
    }

    /// Reads and checks the whole entry.
    fn check_in_one_pass(&self, below: &dyn Source) -> Result<State> {
        crc_of_range::<E>(below, self.first(), self.len()).and_then(|crc| self.check_crc_with_prefix(below, crc))
    }

    /// Checks the entry if the runs cover it, or if it has to be checked in one pass.
    fn check_if_complete(&self, below: &dyn Source, state: &mut State) -> Result<()> {
        let State::Pending(runs) = state else { return Ok(()) };
        let next = match runs[..] {
            [Run { start: 0, end, crc }] if end == self.len() => self.check_crc_with_prefix(below, crc),
            _ if !self.is_incremental || runs.len() > MAX_RUNS => self.check_in_one_pass(below),
            _ => return Ok(()),
        };
        match next {
            Ok(next) => *state = next,
            Err(error) => {
                if let AnamnesisError::Parse { reason } = &error {
                    *state = State::Corrupt(reason.clone());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The first bytes of `range` that are not hashed yet; `None` if there are none or the entry is verified.
    fn first_unhashed(&self, below: &dyn Source, range: &Range<u64>) -> Result<Option<Range<u64>>> {
        let mut state = self.state();
        if !self.is_incremental {
            self.check_if_complete(below, &mut state)?;
        }
        match &*state {
            State::Verified => Ok(None),
            State::Corrupt(reason) => Err(AnamnesisError::parse(reason)),
            State::Pending(runs) => Ok(first_gap(runs, range)),
        }
    }
}

/// The CRC of a range of the source.
fn crc_of_range<E: Summed>(below: &dyn Source, start: u64, bytes: u64) -> Result<u32> {
    let mut piece = vec![0; PASS_BYTES.min(bytes) as usize];
    let (mut at, mut crc) = (0, E::crc(&[]));
    while at < bytes {
        let now = &mut piece[..PASS_BYTES.min(bytes - at) as usize];
        below.read_at(start + at, now)?;
        crc = E::combine(crc, E::crc(now), now.len() as u64);
        at += now.len() as u64;
    }
    Ok(crc)
}

/// The first part of `range` outside all runs.
fn first_gap(runs: &[Run], range: &Range<u64>) -> Option<Range<u64>> {
    let mut start = range.start;
    for run in &runs[runs.partition_point(|run| run.end <= start)..] {
        if run.start > start {
            return (start < range.end).then(|| start..run.start.min(range.end));
        }
        start = run.end;
    }
    (start < range.end).then_some(start..range.end)
}

/// Inserts a run, which overlaps none of the others, and merges adjacent runs.
fn insert_run<E: Summed>(runs: &mut Vec<Run>, run: Run) {
    let at = runs.partition_point(|other| other.end <= run.start);
    runs.insert(at, run);
    if runs.get(at + 1).is_some_and(|next| next.start == run.end) {
        let next = runs.remove(at + 1);
        runs[at] = runs[at].merge::<E>(next);
    }
    if at > 0 && runs[at - 1].end == run.start {
        let last = runs.remove(at);
        runs[at - 1] = runs[at - 1].merge::<E>(last);
    }
}

impl<E: Summed> Region for Checked<E> {
    fn len(&self) -> u64 {
        self.entry.place().1 - self.start
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        below.read_at(self.first() + offset, buffer)?;
        self.verify(below, offset, buffer)
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, hasher: &mut dyn Hasher) {
        let base = self.first();
        below.identify(base + range.start..base + range.end, hasher);
    }

    fn stored_at(&self) -> Option<u64> {
        Some(self.first())
    }

    fn verify(&self, below: &dyn Source, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        while let Some(gap) = self.first_unhashed(below, &range)? {
            let crc = E::crc(&bytes[(gap.start - offset) as usize..(gap.end - offset) as usize]);
            let mut state = self.state();
            // Another worker may have hashed some of these bytes meanwhile.
            if let State::Pending(runs) = &mut *state
                && first_gap(runs, &gap) == Some(gap.clone())
            {
                insert_run::<E>(runs, Run { start: gap.start, end: gap.end, crc });
                self.check_if_complete(below, &mut state)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::zip::{Entry, Method};
    use crate::io::BytesSource;

    fn entry(content: &[u8], crc: u32) -> Entry {
        let bytes = content.len() as u64;
        Entry { name: "a".into(), method: Method::Stored, offset: 0, stored_bytes: bytes, bytes, crc }
    }

    /// Reads pieces of a region; whether all succeeded.
    fn reads(content: &[u8], crc: u32, pieces: impl IntoIterator<Item = (usize, usize)>) -> bool {
        reads_from(&Checked::incremental(10, entry(content, crc)), content, pieces)
    }

    fn reads_from(region: &Checked<Entry>, content: &[u8], pieces: impl IntoIterator<Item = (usize, usize)>) -> bool {
        let source = BytesSource(content.to_vec());
        pieces.into_iter().fold(true, |good, (start, end)| {
            let mut buffer = vec![0; end - start];
            let outcome = region.read_at(&source, start as u64, &mut buffer);
            if outcome.is_ok() {
                assert_eq!(buffer, content[10 + start..10 + end]);
            }
            good && outcome.is_ok()
        })
    }

    #[test]
    fn the_last_piece_checks_the_crc_in_any_order() {
        let content: Vec<u8> = (0..1010u32).map(|number| (number * 7) as u8).collect();
        let crc = crc32fast::hash(&content);
        let orders: [&[(usize, usize)]; 6] = [
            &[(0, 1000)],
            &[(0, 300), (300, 999), (999, 1000)],
            &[(600, 1000), (0, 100), (300, 600), (100, 300)],
            &[(500, 1000), (400, 600), (0, 500)],
            &[(0, 600), (0, 600), (300, 1000)],
            &[(100, 200), (300, 400), (600, 700), (650, 1000), (0, 650)],
        ];
        for order in orders {
            assert!(reads(&content, crc, order.iter().copied()), "{order:?}");
            assert!(!reads(&content, crc ^ 1, order.iter().copied()), "{order:?}");
            assert!(reads(&content, crc ^ 1, order[..order.len() - 1].iter().copied().take(1)) || order.len() == 1);
        }
    }

    #[test]
    fn random_access_is_checked_in_one_pass() {
        let content = vec![5; 1010];
        let scattered = || (0..100).map(|index| (index * 10, index * 10 + 3));
        assert!(reads(&content, crc32fast::hash(&content), scattered()));
        assert!(!reads(&content, 0, scattered()));
        assert!(reads(&content, 0, scattered().take(MAX_RUNS)));
    }

    #[test]
    fn an_entry_read_in_part_is_checked_before_its_first_byte() {
        let content = vec![7; 1010];
        let read = |crc| reads_from(&Checked::upfront(10, entry(&content, crc)), &content, [(5, 6), (900, 903)]);
        assert!(read(crc32fast::hash(&content)));
        assert!(!read(1));
    }
}
