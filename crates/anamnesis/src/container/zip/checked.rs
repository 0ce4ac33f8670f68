//! A stored entry as a region whose CRC is checked on the way: pieces may be read in any order and by several workers, and
//! whoever reads the last of them learns whether they are what was written. An entry of which only a part will be read is
//! checked as a whole before its first byte.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entry::Entry;
use super::inflated::check_crc;
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Pieces that do not touch each other yet. More than this means reading out of order, and the entry is checked in one pass.
const MAX_RUNS: usize = 64;
/// Bytes hashed at a time in such a pass.
const PASS_BYTES: u64 = 256 << 10;

/// The end of a stored entry, from some byte on.
pub(crate) struct Checked {
    entry: Entry,
    /// Where the region starts in the entry.
    start: u64,
    /// Whether all of it is going to be read.
    by_pieces: bool,
    state: Mutex<State>,
}

enum State {
    /// What was read so far, in order, no two runs touching.
    Open(Vec<Run>),
    Right,
    /// What is wrong; it stays wrong.
    Wrong(String),
}

#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    crc: u32,
}

impl Run {
    fn joined(self, next: Self) -> Self {
        Self { end: next.end, crc: combined(self.crc, next.crc, next.end - next.start), ..self }
    }
}

fn combined(first: u32, second: u32, second_bytes: u64) -> u32 {
    let mut both = crc32fast::Hasher::new_with_initial(first);
    both.combine(&crc32fast::Hasher::new_with_initial_len(second, second_bytes));
    both.finalize()
}

impl Checked {
    /// The entry from byte `start` on, every byte of which is going to be read.
    pub(crate) fn behind(start: u64, entry: Entry) -> Self {
        Self { start: start.min(entry.bytes), entry, by_pieces: true, state: Mutex::new(State::Open(Vec::new())) }
    }

    /// The entry from byte `start` on, of which some bytes may not be read.
    pub(crate) fn at_once(start: u64, entry: Entry) -> Self {
        Self { by_pieces: false, ..Self::behind(start, entry) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a region of this CRC, with what is before it, is what was written.
    fn verdict(&self, below: &dyn Source, crc: u32) -> Result<State> {
        let head = hash(below, self.entry.offset, self.start)?;
        check_crc(&self.entry, combined(head, crc, self.len()))?;
        Ok(State::Right)
    }

    /// The verdict after a pass over all of it.
    fn pass(&self, below: &dyn Source) -> Result<State> {
        hash(below, self.entry.offset + self.start, self.len()).and_then(|crc| self.verdict(below, crc))
    }

    /// Settles what the runs tell, where they tell anything.
    fn settle(&self, below: &dyn Source, state: &mut State) -> Result<()> {
        let State::Open(runs) = state else { return Ok(()) };
        let next = match runs[..] {
            [Run { start: 0, end, crc }] if end == self.len() => self.verdict(below, crc),
            _ if !self.by_pieces || runs.len() > MAX_RUNS => self.pass(below),
            _ => return Ok(()),
        };
        match next {
            Ok(next) => *state = next,
            Err(error) => {
                if let AnamnesisError::Parse { reason } = &error {
                    *state = State::Wrong(reason.clone());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The first bytes of `range` that nobody has seen; `None` where all were or it does not matter any more.
    fn unseen(&self, below: &dyn Source, range: &Range<u64>) -> Result<Option<Range<u64>>> {
        let mut state = self.state();
        if !self.by_pieces {
            self.settle(below, &mut state)?;
        }
        match &*state {
            State::Right => Ok(None),
            State::Wrong(reason) => Err(AnamnesisError::parse(reason)),
            State::Open(runs) => Ok(first_gap(runs, range)),
        }
    }
}

/// The CRC of bytes that are read for it alone.
fn hash(below: &dyn Source, start: u64, bytes: u64) -> Result<u32> {
    let mut piece = vec![0; PASS_BYTES.min(bytes) as usize];
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < bytes {
        let now = &mut piece[..PASS_BYTES.min(bytes - at) as usize];
        below.read_at(start + at, now)?;
        hasher.update(now);
        at += now.len() as u64;
    }
    Ok(hasher.finalize())
}

/// The first part of `range` that is in no run.
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

/// Puts a run among the others, none of which has any of its bytes.
fn add(runs: &mut Vec<Run>, run: Run) {
    let at = runs.partition_point(|other| other.end <= run.start);
    runs.insert(at, run);
    if runs.get(at + 1).is_some_and(|next| next.start == run.end) {
        let next = runs.remove(at + 1);
        runs[at] = runs[at].joined(next);
    }
    if at > 0 && runs[at - 1].end == run.start {
        let last = runs.remove(at);
        runs[at - 1] = runs[at - 1].joined(last);
    }
}

impl Region for Checked {
    fn len(&self) -> u64 {
        self.entry.bytes - self.start
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        below.read_at(self.entry.offset + self.start + offset, buffer)?;
        self.seen(below, offset, buffer)
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, hasher: &mut dyn Hasher) {
        let base = self.entry.offset + self.start;
        below.identify(base + range.start..base + range.end, hasher);
    }

    fn stored_at(&self) -> Option<u64> {
        Some(self.entry.offset + self.start)
    }

    fn seen(&self, below: &dyn Source, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        while let Some(gap) = self.unseen(below, &range)? {
            let crc = crc32fast::hash(&bytes[(gap.start - offset) as usize..(gap.end - offset) as usize]);
            let mut state = self.state();
            // Another worker may have come first, with the same bytes or some of them.
            if let State::Open(runs) = &mut *state
                && first_gap(runs, &gap) == Some(gap.clone())
            {
                add(runs, Run { start: gap.start, end: gap.end, crc });
                self.settle(below, &mut state)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;
    use crate::io::BytesSource;

    fn entry(content: &[u8], crc: u32) -> Entry {
        let bytes = content.len() as u64;
        Entry { name: "a".into(), method: Method::Stored, offset: 0, stored_bytes: bytes, bytes, crc }
    }

    /// Reads pieces of a region and says whether all went well.
    fn reads(content: &[u8], crc: u32, pieces: impl IntoIterator<Item = (usize, usize)>) -> bool {
        reads_from(&Checked::behind(10, entry(content, crc)), content, pieces)
    }

    fn reads_from(region: &Checked, content: &[u8], pieces: impl IntoIterator<Item = (usize, usize)>) -> bool {
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
    fn the_last_piece_tells_whatever_the_order() {
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
    fn reading_all_over_the_place_is_checked_in_one_pass() {
        let content = vec![5; 1010];
        let scattered = || (0..100).map(|index| (index * 10, index * 10 + 3));
        assert!(reads(&content, crc32fast::hash(&content), scattered()));
        assert!(!reads(&content, 0, scattered()));
        assert!(reads(&content, 0, scattered().take(MAX_RUNS)));
    }

    #[test]
    fn an_entry_read_in_part_is_checked_before_its_first_byte() {
        let content = vec![7; 1010];
        let read = |crc| reads_from(&Checked::at_once(10, entry(&content, crc)), &content, [(5, 6), (900, 903)]);
        assert!(read(crc32fast::hash(&content)));
        assert!(!read(1));
    }
}
