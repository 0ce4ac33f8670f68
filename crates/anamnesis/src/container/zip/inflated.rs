//! A deflated entry as a region that is inflated while it is read sequentially.
//!
//! The first backward seek restarts the stream; after a second one, or if random access is expected, the whole entry
//! is inflated into a [`Spill`]. Length and CRC are verified before the last byte is returned.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};

use super::entry::{Entry, Method};
use super::spill::{Spill, SpillSlot};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ReadAt, Region, Source};

/// Compressed bytes of the first and the largest read: little is read if only a prefix is needed.
const FIRST_READ_BYTES: u64 = 4 << 10;
const LARGEST_READ_BYTES: u64 = 256 << 10;
/// Bytes inflated at a time while skipping or unpacking.
const PIECE_BYTES: usize = 256 << 10;

/// The inflated content of an entry.
pub(crate) struct Inflated {
    entry: Entry,
    checks_crc: bool,
    spill: Arc<Spill>,
    state: Mutex<State>,
    is_sequential: bool,
}

enum State {
    /// No stream is open; `went_back` records a backward seek.
    Idle {
        went_back: bool,
    },
    Streaming {
        stream: Box<Stream>,
        went_back: bool,
    },
    Unpacked(Arc<SpillSlot>),
    /// The error; it is permanent.
    Broken(String),
}

impl Inflated {
    /// An entry that is read sequentially.
    pub(crate) fn sequential(entry: Entry, checks_crc: bool, spill: &Arc<Spill>) -> Self {
        let state = Mutex::new(State::Idle { went_back: false });
        Self { entry, checks_crc, spill: Arc::clone(spill), state, is_sequential: true }
    }

    /// An entry for random access: it is unpacked on the first read.
    pub(crate) fn random_access(entry: Entry, checks_crc: bool, spill: &Arc<Spill>) -> Self {
        Self { is_sequential: false, ..Self::sequential(entry, checks_crc, spill) }
    }

    fn read(&self, below: &dyn Source, offset: u64, buffer: &mut [u8], state: &mut State) -> Result<()> {
        let (mut stream, went_back) = match std::mem::replace(state, State::Idle { went_back: true }) {
            State::Idle { went_back } => (None, went_back),
            State::Streaming { stream, went_back } if stream.made <= offset => (Some(stream), went_back),
            State::Streaming { went_back: false, .. } => (None, true),
            State::Streaming { .. } | State::Unpacked(_) | State::Broken(_) => return self.unpack(below, state),
        };
        let mut stream = stream.take().unwrap_or_else(|| Box::new(Stream::new(&self.entry)));
        stream.skip_to(below, offset)?;
        stream.fill(below, buffer)?;
        if stream.made == self.entry.bytes {
            stream.finish(below, self.checks_crc)?;
            *state = State::Idle { went_back };
        } else {
            *state = State::Streaming { stream, went_back };
        }
        Ok(())
    }

    fn unpack(&self, below: &dyn Source, state: &mut State) -> Result<()> {
        let mut stream = Stream::new(&self.entry);
        let mut place = self.spill.allocate(self.entry.bytes)?;
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(self.entry.bytes).unwrap_or(PIECE_BYTES))];
        while stream.made < self.entry.bytes {
            let at = stream.made;
            let now = piece.len().min(usize::try_from(self.entry.bytes - at).unwrap_or(piece.len()));
            stream.fill(below, &mut piece[..now])?;
            place.write(at, &piece[..now])?;
        }
        stream.finish(below, self.checks_crc)?;
        *state = State::Unpacked(Arc::new(place));
        Ok(())
    }
}

impl Region for Inflated {
    fn len(&self) -> u64 {
        self.entry.bytes
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Broken(reason) = &*state {
            return Err(AnamnesisError::parse(reason));
        }
        if !matches!(&*state, State::Unpacked(_)) {
            let outcome = if self.is_sequential {
                self.read(below, offset, buffer, &mut state)
            } else {
                self.unpack(below, &mut state)
            };
            if let Err(AnamnesisError::Parse { reason }) = &outcome {
                *state = State::Broken(reason.clone());
            }
            outcome?;
        }
        let State::Unpacked(place) = &*state else { return Ok(()) };
        let place = Arc::clone(place);
        drop(state);
        place.read(offset, buffer)
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        ("inflated", range).hash(&mut hasher);
        below.identify(self.entry.offset..self.entry.offset + self.entry.stored_bytes, hasher);
    }

    fn is_sequential(&self) -> bool {
        self.is_sequential
    }
}

/// The first `bytes` bytes of an entry, or all of a shorter one. Little is read beyond them. The CRC is checked if
/// they are the whole entry.
pub(crate) fn read_prefix(
    source: &(impl ReadAt + ?Sized),
    entry: &Entry,
    bytes: u64,
    checks_crc: bool,
) -> Result<Vec<u8>> {
    let mut prefix = vec![0; entry.bytes.min(bytes) as usize];
    if entry.method == Method::Stored {
        source.fill_at(entry.offset, &mut prefix)?;
        if checks_crc && bytes >= entry.bytes {
            entry.check_crc(crc32fast::hash(&prefix))?;
        }
        return Ok(prefix);
    }
    let mut stream = Stream::new(entry);
    stream.fill(source, &mut prefix)?;
    if stream.made == entry.bytes {
        stream.finish(source, checks_crc)?;
    }
    Ok(prefix)
}

/// All bytes of an entry, borrowed if the source has them in memory uncompressed.
pub(crate) fn read_whole<'s>(
    source: &'s (impl ReadAt + ?Sized),
    entry: &Entry,
    checks_crc: bool,
) -> Result<Cow<'s, [u8]>> {
    let range = entry.offset..entry.offset.saturating_add(entry.bytes);
    match source.in_memory(range).filter(|_| entry.method == Method::Stored) {
        Some(bytes) => {
            if checks_crc {
                entry.check_crc(crc32fast::hash(bytes))?;
            }
            Ok(Cow::Borrowed(bytes))
        }
        None => read_prefix(source, entry, entry.bytes, checks_crc).map(Cow::Owned),
    }
}

/// A deflate stream.
struct Stream {
    entry: Entry,
    inflate: Decompress,
    hasher: crc32fast::Hasher,
    /// Compressed input, and how much of it is consumed.
    input: Vec<u8>,
    used: usize,
    read: u64,
    /// Bytes produced so far.
    made: u64,
    has_ended: bool,
}

impl Stream {
    fn new(entry: &Entry) -> Self {
        Self {
            entry: entry.clone(),
            inflate: Decompress::new(false),
            hasher: crc32fast::Hasher::new(),
            input: Vec::new(),
            used: 0,
            read: 0,
            made: 0,
            has_ended: false,
        }
    }

    fn broken(&self, why: &str) -> AnamnesisError {
        AnamnesisError::parse(format!("ZIP entry {} {why}", quoted(&self.entry.name)))
    }

    fn skip_to(&mut self, source: &(impl ReadAt + ?Sized), offset: u64) -> Result<()> {
        let mut passed =
            vec![0; usize::try_from(offset.saturating_sub(self.made)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
        while self.made < offset {
            let now = usize::try_from(offset - self.made).unwrap_or(passed.len()).min(passed.len());
            self.fill(source, &mut passed[..now])?;
        }
        Ok(())
    }

    /// Inflates exactly `out.len()` bytes.
    fn fill(&mut self, source: &(impl ReadAt + ?Sized), out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            if self.has_ended {
                let why = format!("inflates to {} bytes, {} were declared", self.made, self.entry.bytes);
                return Err(self.broken(&why));
            }
            filled += self.step(source, &mut out[filled..])?;
        }
        self.hasher.update(out);
        Ok(())
    }

    /// Inflates some bytes, or reads more input.
    fn step(&mut self, source: &(impl ReadAt + ?Sized), out: &mut [u8]) -> Result<usize> {
        if self.used == self.input.len() {
            self.read_more(source)?;
        }
        let (consumed, produced) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(&self.input[self.used..], out, FlushDecompress::None);
        let status = status.map_err(|_| self.broken("is damaged: it is not valid deflate data"))?;
        let (consumed, produced) = (self.inflate.total_in() - consumed, self.inflate.total_out() - produced);
        self.used += consumed as usize;
        self.made += produced;
        self.has_ended = status == Status::StreamEnd;
        if consumed == 0 && produced == 0 && !self.has_ended && self.read == self.entry.stored_bytes {
            return Err(self.broken("is damaged: its deflate data ends early"));
        }
        Ok(produced as usize)
    }

    fn read_more(&mut self, source: &(impl ReadAt + ?Sized)) -> Result<()> {
        let wanted = if self.read == 0 { FIRST_READ_BYTES } else { LARGEST_READ_BYTES };
        self.input.resize(wanted.min(self.entry.stored_bytes - self.read) as usize, 0);
        self.used = 0;
        source.fill_at(self.entry.offset + self.read, &mut self.input)?;
        self.read += self.input.len() as u64;
        Ok(())
    }

    /// Checks that the stream ends here and, if asked, the CRC.
    fn finish(&mut self, source: &(impl ReadAt + ?Sized), checks_crc: bool) -> Result<()> {
        while !self.has_ended {
            let mut beyond = [0];
            if self.step(source, &mut beyond)? > 0 {
                return Err(self.broken(&format!("inflates to more than the declared {} bytes", self.entry.bytes)));
            }
        }
        if self.inflate.total_in() != self.entry.stored_bytes {
            let why = format!("has {} bytes after its deflate data", self.entry.stored_bytes - self.inflate.total_in());
            return Err(self.broken(&why));
        }
        if checks_crc { self.entry.check_crc(self.hasher.clone().finalize()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    /// A deflated entry and its content.
    fn deflated(bytes: usize) -> (Entry, BytesSource<Vec<u8>>, Vec<u8>) {
        use std::io::Write;
        let content: Vec<u8> = (0..bytes as u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&content).unwrap();
        let data = encoder.finish().unwrap();
        let entry = Entry {
            name: "a".into(),
            method: Method::Deflated,
            offset: 0,
            stored_bytes: data.len() as u64,
            bytes: bytes as u64,
            crc: crc32fast::hash(&content),
        };
        (entry, BytesSource(data), content)
    }

    fn state(region: &Inflated) -> &'static str {
        match &*region.state.lock().unwrap() {
            State::Idle { .. } => "idle",
            State::Streaming { .. } => "streaming",
            State::Unpacked(_) => "unpacked",
            State::Broken(_) => "broken",
        }
    }

    #[test]
    fn going_back_starts_over_once_and_then_unpacks() {
        let (entry, source, content) = deflated(300_000);
        let region = Inflated::sequential(entry, true, &Spill::new());
        let read = |start: usize, end: usize| {
            let mut bytes = vec![0; end - start];
            region.read_at(&source, start as u64, &mut bytes).unwrap();
            assert_eq!(bytes, content[start..end]);
            state(&region)
        };
        assert_eq!(read(0, 1000), "streaming");
        assert_eq!(read(1000, 100_000), "streaming");
        assert_eq!(read(290_000, 300_000), "idle", "nothing is kept once the end was reached");
        assert_eq!(read(5, 50), "streaming");
        assert_eq!(read(0, 50), "streaming");
        assert_eq!(read(20, 60), "unpacked");
        assert_eq!(read(0, 300_000), "unpacked");
        assert_eq!(read(299_999, 300_000), "unpacked");
    }

    #[test]
    fn damage_is_found_at_the_end_and_stays() {
        let (entry, source, content) = deflated(70_000);
        let wrong = || Entry { crc: entry.crc ^ 1, ..entry.clone() };
        let region = Inflated::sequential(wrong(), true, &Spill::new());
        let mut bytes = vec![0; 69_999];
        region.read_at(&source, 0, &mut bytes).unwrap();
        for _ in 0..2 {
            assert!(region.read_at(&source, 69_999, &mut [0]).is_err());
            assert_eq!(state(&region), "broken");
        }
        let unchecked = Inflated::sequential(wrong(), false, &Spill::new());
        let mut bytes = vec![0; 70_000];
        unchecked.read_at(&source, 0, &mut bytes).unwrap();
        assert_eq!(bytes, content);
        let unpacked = Inflated::random_access(wrong(), true, &Spill::new());
        assert!(unpacked.read_at(&source, 5, &mut [0]).is_err(), "an unpacked entry is checked before its first byte");
        assert_eq!(read_prefix(&source, &entry, 100, true).unwrap(), content[..100]);
        assert!(read_prefix(&source, &wrong(), 70_000, true).is_err());
    }
}
