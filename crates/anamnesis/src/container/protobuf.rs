//! A reader of Protocol Buffers messages: a message is a flat sequence of fields, and a nested message is a byte range of
//! its own. Messages are slices, or ranges of a source that is read as needed ([`Stored`]).

use std::cell::RefCell;
use std::ops::Range;

use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field<B> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(B),
}

/// The unread rest of a message.
pub(crate) trait Message {
    /// A range of its bytes.
    type Bytes;

    fn remaining(&self) -> u64;

    /// Skips bytes and returns them; `None` if fewer remain.
    fn take(&mut self, bytes: u64) -> Option<Self::Bytes>;

    /// Reads bytes, as many as `out` has; `false` if fewer remain.
    fn fill(&mut self, out: &mut [u8]) -> Result<bool>;
}

impl<'b> Message for &'b [u8] {
    type Bytes = &'b [u8];

    fn remaining(&self) -> u64 {
        self.len() as u64
    }

    fn take(&mut self, bytes: u64) -> Option<&'b [u8]> {
        self.split_off(..usize::try_from(bytes).ok()?)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<bool> {
        let Some(taken) = self.split_off(..out.len()) else { return Ok(false) };
        out.copy_from_slice(taken);
        Ok(true)
    }
}

/// Bytes of a source that are read at a time.
const WINDOW_BYTES: u64 = 16 << 10;

/// A source that is read in windows, for messages larger than memory should hold.
pub(crate) struct Window<'s, S: ?Sized> {
    source: &'s S,
    /// The end of the bytes that may be read.
    end: u64,
    /// The last window and its offset.
    held: RefCell<(u64, Vec<u8>)>,
}

impl<'s, S: ReadAt + ?Sized> Window<'s, S> {
    /// Windows of the bytes up to `end`.
    pub(crate) const fn new(source: &'s S, end: u64) -> Self {
        Self { source, end, held: RefCell::new((0, Vec::new())) }
    }

    /// The message in a range of the source.
    pub(crate) const fn message(&self, range: Range<u64>) -> Stored<'_, S> {
        Stored { window: self, range }
    }

    /// Fills `out` from `offset`.
    pub(crate) fn fill(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut held = self.held.borrow_mut();
        let inside = |(start, bytes): &(u64, Vec<u8>)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            Some(from..from.checked_add(out.len()).filter(|end| *end <= bytes.len())?)
        };
        if let Some(found) = inside(&held) {
            out.copy_from_slice(&held.1[found]);
            return Ok(());
        }
        if out.len() as u64 > WINDOW_BYTES {
            return self.source.fill_at(offset, out);
        }
        let bytes = self.end.saturating_sub(offset).min(WINDOW_BYTES);
        held.0 = offset;
        held.1.resize(bytes as usize, 0);
        self.source.fill_at(offset, &mut held.1)?;
        match inside(&held) {
            Some(found) => out.copy_from_slice(&held.1[found]),
            None => return self.source.fill_at(offset, out),
        }
        Ok(())
    }
}

/// The unread rest of a message in a source.
pub(crate) struct Stored<'w, S: ?Sized> {
    window: &'w Window<'w, S>,
    range: Range<u64>,
}

impl<S: ReadAt + ?Sized> Message for Stored<'_, S> {
    type Bytes = Range<u64>;

    fn remaining(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let end = self.range.start.checked_add(bytes).filter(|end| *end <= self.range.end)?;
        let taken = self.range.start..end;
        self.range.start = end;
        Some(taken)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<bool> {
        let Some(taken) = self.take(out.len() as u64) else { return Ok(false) };
        self.window.fill(taken.start, out)?;
        Ok(true)
    }
}

/// Iterates over the fields of a message.
#[derive(Debug, Clone)]
pub(crate) struct Fields<M> {
    rest: M,
    length: u64,
}

impl<M: Message> Fields<M> {
    pub(crate) fn new(message: M) -> Self {
        Self { length: message.remaining(), rest: message }
    }

    /// The next field: its number and its value.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Field<M::Bytes>)>> {
        if self.rest.remaining() == 0 {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.array()?),
            2 => {
                let (length, remaining) = (self.varint()?, self.rest.remaining());
                let taken = self.rest.take(length);
                Field::Bytes(taken.ok_or_else(|| self.short(length, remaining))?)
            }
            5 => Field::Fixed32(self.array()?),
            kind => return Err(self.refused(&format!("a field has wire type {kind}, 0, 1, 2 and 5 are supported"))),
        };
        match key >> 3 {
            0 => Err(self.refused("a field has number 0")),
            number => Ok(Some((number, value))),
        }
    }

    /// The number of bytes that have been read.
    pub(crate) fn position(&self) -> u64 {
        self.length - self.rest.remaining()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (mut bytes, remaining) = ([0; N], self.rest.remaining());
        if !self.rest.fill(&mut bytes)? {
            return Err(self.short(N as u64, remaining));
        }
        Ok(bytes)
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for place in 0..10 {
            let [byte] = self.array::<1>()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.refused("a number is longer than 64 bits"))
    }

    fn short(&self, length: u64, remaining: u64) -> AnamnesisError {
        self.refused(&format!("a field has {length} bytes, {remaining} remain"))
    }

    fn refused(&self, why: &str) -> AnamnesisError {
        AnamnesisError::parse(format!("at byte {}: {why}", self.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbered<'b> = (u64, Field<&'b [u8]>);

    fn all(bytes: &[u8]) -> Result<Vec<Numbered<'_>>> {
        let mut fields = Fields::new(bytes);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let wanted = [
            (1, Field::Varint(150)),
            (2, Field::Bytes(&b"hi"[..])),
            (3, Field::Fixed32([1, 0, 0, 0])),
            (4, Field::Fixed64([2, 0, 0, 0, 0, 0, 0, 0])),
        ];
        assert_eq!(all(&bytes).unwrap(), wanted);
        let largest = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(all(&largest).unwrap(), [(1, Field::Varint(u64::MAX))]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x0a, 0x05, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x0b],
            &[0x00, 0x01],
            &[0x0d, 1, 2],
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        ] {
            assert!(matches!(all(bytes), Err(AnamnesisError::Parse { .. })), "{bytes:?}");
        }
    }

    #[test]
    fn a_stored_message_is_read_like_a_slice() {
        let long = [&[0x08, 0x96, 0x01, 0x12, 0xd0, 0x86, 0x03][..], &[7; 50_000], &[0x1d, 1, 0, 0, 0]].concat();
        let source = crate::io::BytesSource(long.clone());
        let window = Window::new(&source, long.len() as u64);
        let mut fields = Fields::new(window.message(0..long.len() as u64));
        assert_eq!(fields.next().unwrap(), Some((1, Field::Varint(150))));
        assert_eq!(fields.next().unwrap(), Some((2, Field::Bytes(7..50_007))));
        assert_eq!((fields.next().unwrap(), fields.position()), (Some((3, Field::Fixed32([1, 0, 0, 0]))), 50_012));
        assert_eq!(fields.next().unwrap(), None);
        // A message ends at its own end, whatever follows.
        assert!(Fields::new(window.message(0..2)).next().is_err());
        assert!(Fields::new(window.message(0..100)).next().is_ok_and(|field| field.is_some()));
        assert!(Fields::new(window.message(3..100)).next().is_err());
    }
}
