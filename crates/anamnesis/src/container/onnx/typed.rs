//! Values in the entries of a typed field: packed, one by one, or both. They are presented like raw data.
//!
//! Entries have varying lengths, so the position of every few thousandth is kept.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::element::{DOUBLES, Element, FLOATS};
use super::reader::Message;
use crate::container::protobuf::{Field, Fields, Window};
use crate::error::{AnamnesisError, Result};
use crate::io::{Region, Source};

/// Entries between two kept positions.
const MARK_ENTRIES: u64 = 4096;

/// The entries of a typed field.
#[derive(Debug)]
pub(super) struct Typed {
    message: Message,
    element: Element,
    entries: u64,
    /// The position before every [`MARK_ENTRIES`]th entry.
    marks: Vec<Position>,
}

/// A position among the entries.
#[derive(Debug, Clone, Copy)]
struct Position {
    /// The piece of the message.
    piece: usize,
    offset: u64,
    /// The end of the packed entries that it is in, or the offset itself.
    packed_end: u64,
}

impl Typed {
    /// Finds all entries of the element's field and checks their number and values.
    pub(super) fn scan(source: &dyn Source, message: &Message, element: Element, entries: u64) -> Result<Self> {
        // An entry takes a byte at least.
        if entries > message.bytes() {
            let bytes = message.bytes();
            return Err(AnamnesisError::parse(format!("it needs {entries} values, its message has {bytes} bytes")));
        }
        let mut typed = Self { message: message.clone(), element, entries, marks: Vec::new() };
        let window = Window::new(source, message.end());
        let mut at = typed.start();
        let mut found = 0;
        loop {
            if found % MARK_ENTRIES == 0 {
                typed.marks.push(at);
            }
            if typed.next(&window, &mut at)?.is_none() {
                break;
            }
            found += 1;
        }
        if found != entries {
            return Err(AnamnesisError::parse(format!("it has {found} values, its shape needs {entries}")));
        }
        Ok(typed)
    }

    fn start(&self) -> Position {
        let offset = self.message.0.first().map_or(0, |piece| piece.start);
        Position { piece: 0, offset, packed_end: offset }
    }

    /// The next entry as little-endian bytes; `None` behind the last.
    fn next<'w>(&self, window: &'w Window<'w, dyn Source + 'w>, at: &mut Position) -> Result<Option<[u8; 8]>> {
        loop {
            if at.offset < at.packed_end {
                let mut fields = Fields::new(window.message(at.offset..at.packed_end));
                let entry = match self.element.field {
                    FLOATS => widened(fields.array()?),
                    DOUBLES => fields.array()?,
                    _ => self.checked(fields.varint()?)?,
                };
                at.offset += fields.position();
                at.packed_end = at.packed_end.max(at.offset);
                return Ok(Some(entry));
            }
            let Some(piece) = self.message.0.get(at.piece) else { return Ok(None) };
            if at.offset >= piece.end {
                at.piece += 1;
                let next = self.message.0.get(at.piece);
                at.offset = next.map_or(0, |piece| piece.start);
                at.packed_end = at.offset;
                continue;
            }
            let mut fields = Fields::new(window.message(at.offset..piece.end));
            let Some((number, field)) = fields.next()? else { return Ok(None) };
            at.offset += fields.position();
            at.packed_end = at.offset;
            if number != self.element.field {
                continue;
            }
            let wrong = || AnamnesisError::parse(format!("field {number} has the wrong type"));
            return Ok(Some(match (number, field) {
                (_, Field::Bytes(range)) => {
                    (at.offset, at.packed_end) = (range.start, range.end);
                    continue;
                }
                (FLOATS, Field::Fixed32(bytes)) => widened(bytes),
                (DOUBLES, Field::Fixed64(bytes)) => bytes,
                (FLOATS | DOUBLES, _) => return Err(wrong()),
                (_, Field::Varint(number)) => self.checked(number)?,
                _ => return Err(wrong()),
            }));
        }
    }

    /// Checks that an integer is one of the element type.
    fn checked(&self, number: u64) -> Result<[u8; 8]> {
        let Element { name, least, most, .. } = self.element;
        let value = if least < 0 { i128::from(number.cast_signed()) } else { i128::from(number) };
        if value < i128::from(least) || value > most {
            return Err(AnamnesisError::parse(format!("the value {value} is not one of {name}")));
        }
        Ok(number.to_le_bytes())
    }

    fn entry_bytes(&self) -> u64 {
        self.element.entry_bytes()
    }
}

fn widened(bytes: [u8; 4]) -> [u8; 8] {
    u64::from(u32::from_le_bytes(bytes)).to_le_bytes()
}

impl Region for Typed {
    fn len(&self) -> u64 {
        self.entries * self.entry_bytes()
    }

    fn read_at(&self, below: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let width = self.entry_bytes();
        let first = offset / width;
        let mark = (first / MARK_ENTRIES) as usize;
        let moved = || AnamnesisError::parse("the values of a tensor have changed");
        let mut at = *self.marks.get(mark).ok_or_else(moved)?;
        let window = Window::new(below, self.message.end());
        for _ in 0..first % MARK_ENTRIES {
            self.next(&window, &mut at)?.ok_or_else(moved)?;
        }
        let mut skipped = (offset % width) as usize;
        let mut rest = buffer;
        while !rest.is_empty() {
            let entry = self.next(&window, &mut at)?.ok_or_else(moved)?;
            let bytes = &entry[skipped..width as usize];
            let count = bytes.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&bytes[..count]);
            (rest, skipped) = (later, 0);
        }
        Ok(())
    }

    fn identify(&self, below: &dyn Source, range: Range<u64>, mut hasher: &mut dyn Hasher) {
        ("typed", &range, self.element.name, self.entries).hash(&mut hasher);
        self.message.0.iter().for_each(|piece| below.identify(piece.clone(), hasher));
    }
}
