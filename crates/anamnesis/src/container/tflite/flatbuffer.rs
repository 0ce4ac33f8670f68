//! A reader of FlatBuffers: tables, whose fields a vtable locates, vectors and strings. Every offset is checked against
//! the file when it is followed.
//!
//! | | layout |
//! |---|---|
//! | file | u32 offset of the root table, from byte 0 |
//! | table | i32 distance back to its vtable, then its fields |
//! | vtable | u16 bytes of the vtable, u16 bytes of the table, per field a u16 offset in the table; 0 if absent |
//! | vector, string | u32 count, then the items; a table or vector inside another is a u32 offset from itself |
//!
//! The format is specified in `docs/source/internals.md` of the FlatBuffers project.

use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result};

/// A table.
#[derive(Clone, Copy)]
pub(super) struct Table<'p, 's> {
    pages: &'p Pages<'s>,
    at: u64,
    bytes: u64,
    vtable: u64,
    vtable_bytes: u64,
}

/// The items of a vector, of a fixed size each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Vector {
    /// The offset of the first item.
    pub(super) start: u64,
    pub(super) count: u64,
}

impl<'p, 's> Table<'p, 's> {
    /// The table that byte 0 leads to.
    pub(super) fn root(pages: &'p Pages<'s>) -> Result<Self> {
        Self::new(pages, u64::from(pages.u32(0)?))
    }

    fn new(pages: &'p Pages<'s>, at: u64) -> Result<Self> {
        let distance = i64::from(i32::from_le_bytes(pages.array(at)?));
        let vtable = i64::try_from(at).ok().and_then(|at| at.checked_sub(distance));
        let fault = |what: &str| AnamnesisError::parse(format!("the table at byte {at} {what}"));
        let vtable = vtable
            .and_then(|vtable| u64::try_from(vtable).ok())
            .ok_or_else(|| fault("has its vtable before the file"))?;
        let (vtable_bytes, bytes) = (u64::from(pages.u16(vtable)?), u64::from(pages.u16(vtable.saturating_add(2))?));
        if vtable_bytes < 4 || !vtable_bytes.is_multiple_of(2) || bytes < 4 {
            return Err(fault("has a vtable of an impossible size"));
        }
        pages.check(vtable, vtable_bytes)?;
        pages.check(at, bytes)?;
        Ok(Self { pages, at, bytes, vtable, vtable_bytes })
    }

    /// The offset of a field of this size, if it is present.
    fn field(&self, number: u16, size: u64) -> Result<Option<u64>> {
        let entry = 4 + 2 * u64::from(number);
        if entry + 2 > self.vtable_bytes {
            return Ok(None);
        }
        match u64::from(self.pages.u16(self.vtable + entry)?) {
            0 => Ok(None),
            offset if offset >= 4 && offset + size <= self.bytes => Ok(Some(self.at + offset)),
            offset => Err(AnamnesisError::parse(format!(
                "field {number} of the table at byte {} is at {offset}, outside its {} bytes",
                self.at, self.bytes
            ))),
        }
    }

    pub(super) fn u8(&self, number: u16) -> Result<Option<u8>> {
        self.field(number, 1)?.map(|at| self.pages.u8(at)).transpose()
    }

    pub(super) fn u32(&self, number: u16) -> Result<Option<u32>> {
        self.field(number, 4)?.map(|at| self.pages.u32(at)).transpose()
    }

    pub(super) fn u64(&self, number: u16) -> Result<Option<u64>> {
        self.field(number, 8)?.map(|at| self.pages.u64(at)).transpose()
    }

    /// Bytes of the file that a vector contains.
    pub(super) fn array<const BYTES: usize>(&self, at: u64) -> Result<[u8; BYTES]> {
        self.pages.array(at)
    }

    /// The place that an offset at `at` leads to.
    fn target(&self, at: u64) -> Result<u64> {
        Ok(at + u64::from(self.pages.u32(at)?))
    }

    /// A table.
    pub(super) fn table(&self, number: u16) -> Result<Option<Self>> {
        let Some(at) = self.field(number, 4)? else { return Ok(None) };
        Self::new(self.pages, self.target(at)?).map(Some)
    }

    /// A vector whose items take `size` bytes each; an absent one is empty.
    pub(super) fn vector(&self, number: u16, size: u64) -> Result<Vector> {
        let Some(at) = self.field(number, 4)? else { return Ok(Vector { start: 0, count: 0 }) };
        let start = self.target(at)?;
        let count = u64::from(self.pages.u32(start)?);
        self.pages.check(start + 4, count * size)?;
        Ok(Vector { start: start + 4, count })
    }

    /// A table of a vector of tables.
    pub(super) fn item(&self, tables: Vector, index: u64) -> Result<Self> {
        if index >= tables.count {
            return Err(AnamnesisError::parse(format!("item {index} of {} was expected", tables.count)));
        }
        Self::new(self.pages, self.target(tables.start + index * 4)?)
    }

    /// The bytes of a string; an absent one is empty. Longer ones than `most` are refused.
    pub(super) fn text(&self, number: u16, most: u64) -> Result<String> {
        let Vector { start, count } = self.vector(number, 1)?;
        if count > most {
            return Err(AnamnesisError::limit("MAX_TEXT_BYTES", format!("{count} bytes of text, {most} are allowed")));
        }
        String::from_utf8(self.pages.read(start..start + count)?)
            .map_err(|error| AnamnesisError::parse(format!("a text is not UTF-8: {error}")))
    }
}
