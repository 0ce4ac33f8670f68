//! Sequential reading of the front matter. Every length is checked against the remaining bytes before memory is
//! allocated.

use std::io::{Read, Seek, SeekFrom};

use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::Budget;

/// Bytes of the first and the largest read. Reads grow with the front matter, so that little is read beyond it.
const FIRST_READ_BYTES: usize = 16 << 10;
const LARGEST_READ_BYTES: usize = 512 << 10;
/// Bytes of the first read after a jump, which is likely followed by another.
const AFTER_JUMP_BYTES: usize = 4 << 10;

/// Bytes read at a time for arrays of numbers.
const CHUNK_BYTES: usize = 64 << 10;

/// Maximum number of items that are preallocated.
const RESERVED_ITEMS: usize = 1 << 16;

/// Fills a buffer from an offset in the file.
type Fill<'a> = Box<dyn FnMut(u64, &mut [u8]) -> Result<()> + 'a>;

/// A position in a file of known length.
pub(super) struct Cursor<'a> {
    fill: Fill<'a>,
    file_bytes: u64,
    /// Bytes read ahead; `window_end` is their end in the file, `consumed` the number already consumed.
    window: Vec<u8>,
    window_end: u64,
    consumed: usize,
    next_read: usize,
    /// Whether consumed bytes stay in the window.
    records: bool,
    pub(super) big_endian: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn over_source(source: &'a dyn Source) -> Self {
        Self::new(source.own_len(), Box::new(|offset, buffer: &mut [u8]| source.read_at(offset, buffer)))
    }

    pub(super) fn over_reader(mut reader: impl Read + Seek + 'a) -> Result<Self> {
        let file_bytes = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        let mut at = 0;
        let fill = move |offset: u64, buffer: &mut [u8]| {
            // A buffered reader loses its buffer by seeking.
            if offset != at {
                reader.seek(SeekFrom::Start(offset))?;
            }
            at = offset + buffer.len() as u64;
            Ok(reader.read_exact(buffer)?)
        };
        Ok(Self::new(file_bytes, Box::new(fill)))
    }

    fn new(file_bytes: u64, fill: Fill<'a>) -> Self {
        let next_read = FIRST_READ_BYTES;
        let window = Vec::new();
        Self { fill, file_bytes, window, window_end: 0, consumed: 0, next_read, records: false, big_endian: false }
    }

    /// Starts to record the consumed bytes, for [`take_recorded`](Self::take_recorded).
    pub(super) fn record(&mut self) {
        self.window.drain(..self.consumed);
        self.consumed = 0;
        self.records = true;
    }

    /// The bytes consumed since [`record`](Self::record).
    pub(super) fn take_recorded(&mut self) -> Vec<u8> {
        self.records = false;
        let rest = self.window.split_off(self.consumed);
        self.consumed = 0;
        std::mem::replace(&mut self.window, rest)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(super) fn position(&self) -> u64 {
        self.window_end - (self.window.len() - self.consumed) as u64
    }

    pub(super) fn remaining(&self) -> u64 {
        self.file_bytes - self.position()
    }

    /// Consumes the next bytes.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Result<&[u8]> {
        if self.window.len() - self.consumed < bytes {
            self.read_ahead(bytes)?;
        }
        let start = self.consumed;
        self.consumed += bytes;
        Ok(&self.window[start..start + bytes])
    }

    #[inline]
    pub(super) fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let mut array = [0; BYTES];
        array.copy_from_slice(self.take(BYTES)?);
        Ok(array)
    }

    #[cold]
    fn read_ahead(&mut self, bytes: usize) -> Result<()> {
        self.check_remaining(bytes as u64)?;
        if !self.records {
            self.window.drain(..self.consumed);
            self.consumed = 0;
        }
        let ready = self.window.len();
        let ahead = self.next_read.max(bytes - (ready - self.consumed));
        let ahead = usize::try_from(self.file_bytes - self.window_end).map_or(ahead, |left| left.min(ahead));
        self.window.resize(ready + ahead, 0);
        (self.fill)(self.window_end, &mut self.window[ready..])?;
        self.window_end += ahead as u64;
        self.next_read = (self.next_read * 2).min(LARGEST_READ_BYTES);
        Ok(())
    }

    /// Moves over bytes without reading them.
    pub(super) fn jump(&mut self, bytes: u64) -> Result<()> {
        self.check_remaining(bytes)?;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.window.len() - self.consumed => self.consumed += bytes,
            _ => {
                self.window_end = self.position() + bytes;
                self.window.clear();
                self.consumed = 0;
                self.next_read = AFTER_JUMP_BYTES;
            }
        }
        Ok(())
    }

    /// Checks that at least `bytes` bytes remain.
    pub(super) fn check_remaining(&self, bytes: u64) -> Result<()> {
        if bytes <= self.remaining() {
            return Ok(());
        }
        let (position, end) = (self.position(), self.file_bytes);
        Err(AnamnesisError::parse(format!("{bytes} bytes at {position} were expected, the file ends at byte {end}")))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.array()?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64> {
        let bytes = self.array()?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A declared number of items of at least `item_bytes` each, checked against a cap and the remaining bytes.
    pub(super) fn count(&mut self, item_bytes: u64, cap: Cap, what: &str) -> Result<usize> {
        let count = self.u64()?;
        cap.check(count, what)?;
        if count > self.remaining() / item_bytes {
            let left = self.remaining();
            return Err(AnamnesisError::parse(format!(
                "{count} {what} take at least {item_bytes} bytes each, {left} bytes are left in the file"
            )));
        }
        // Caps are far below 2^32.
        Ok(count as usize)
    }

    /// A string: u64 length, then UTF-8.
    #[inline]
    pub(super) fn string(&mut self, cap: Cap, budget: &mut Budget) -> Result<&str> {
        let bytes = self.u64()?;
        cap.check(bytes, "bytes of text")?;
        self.check_remaining(bytes)?;
        budget.buffer(bytes, "a string")?;
        std::str::from_utf8(self.take(bytes as usize)?).map_err(|error| invalid_utf8(&error))
    }

    /// An array of numbers of a fixed size.
    pub(super) fn numbers<T, const BYTES: usize>(
        &mut self,
        count: usize,
        budget: &mut Budget,
        read: impl Fn([u8; BYTES]) -> T,
    ) -> Result<Vec<T>> {
        let bytes = count as u64 * BYTES as u64;
        self.check_remaining(bytes)?;
        budget.buffer(bytes, "an array")?;
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            let now = (count - numbers.len()).min(CHUNK_BYTES / BYTES);
            let (chunks, _) = self.take(now * BYTES)?.as_chunks::<BYTES>();
            numbers.extend(chunks.iter().map(|chunk| read(*chunk)));
        }
        Ok(numbers)
    }

    /// Skips bytes in chunks, each of which is passed to `check`.
    pub(super) fn skip_checked(
        &mut self,
        bytes: u64,
        budget: &mut Budget,
        check: impl Fn(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check_remaining(bytes)?;
        budget.buffer(bytes, "an array")?;
        let mut left = bytes;
        while left > 0 {
            let now = left.min(CHUNK_BYTES as u64);
            check(self.take(now as usize)?)?;
            left -= now;
        }
        Ok(())
    }

    /// An empty vector with capacity for the declared items, up to `RESERVED_ITEMS`.
    pub(super) fn with_reserved<T>(count: usize) -> Vec<T> {
        Vec::with_capacity(count.min(RESERVED_ITEMS))
    }
}

fn invalid_utf8(error: &std::str::Utf8Error) -> AnamnesisError {
    AnamnesisError::parse(format!("a string is not UTF-8: {error}"))
}

/// A permanent cap: its name and value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cap(pub &'static str, pub u64);

impl Cap {
    #[inline]
    pub(super) fn check(self, count: u64, what: &str) -> Result<()> {
        if count <= self.1 { Ok(()) } else { Err(self.exceeded(count, what)) }
    }

    #[cold]
    fn exceeded(self, count: u64, what: &str) -> AnamnesisError {
        AnamnesisError::limit(self.0, format!("{count} {what}, {} are allowed", self.1))
    }
}
