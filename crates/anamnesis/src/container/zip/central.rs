//! The central directory of a ZIP archive.

use super::end::End;
use super::entry::Method;
use super::window::Window;
use super::{ZIP_MAX_ENTRIES, ZIP_MAX_NAME_LEN, u16_at, u32_at, u64_at};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

pub(super) const SIGNATURE: &[u8; 4] = b"PK\x01\x02";
const FIXED_BYTES: u64 = 46;
/// Bytes read at a time.
const READ_BYTES: u64 = 256 << 10;
/// Maximum number of entries that are preallocated.
const RESERVED_ENTRIES: u64 = 1 << 12;

/// General-purpose flag: a data descriptor follows the data.
pub(super) const HAS_DESCRIPTOR: u16 = 1 << 3;
/// General-purpose flag: the name is UTF-8, not in a code page.
const IS_UTF8: u16 = 1 << 11;
/// Bits 1 and 2 are the compression level of deflate.
const KNOWN_FLAGS: u16 = HAS_DESCRIPTOR | IS_UTF8 | 0b110;
/// Traditional encryption, strong encryption, and the masked directory that goes with it.
const ENCRYPTION_FLAGS: u16 = 1 | 1 << 6 | 1 << 13;
const PATCH_FLAG: u16 = 1 << 5;

/// Extra fields that override header fields.
const ZIP64_FIELD: u16 = 0x0001;
const UNICODE_NAME_FIELD: u16 = 0x7075;

/// A record of the central directory.
#[derive(Debug)]
pub(super) struct Record {
    pub name: String,
    pub flags: u16,
    pub method: Method,
    pub crc: u32,
    pub stored_bytes: u64,
    pub bytes: u64,
    /// Absolute offset of the local header.
    pub header: u64,
}

/// Reads the central directory.
pub(super) fn read(source: &(impl ReadAt + ?Sized), end: &End, budget: &mut Budget) -> Result<Vec<Record>> {
    budget.items(end.entries, "ZIP entries")?;
    if end.entries > ZIP_MAX_ENTRIES {
        let message = format!("{} ZIP entries, {ZIP_MAX_ENTRIES} are allowed", end.entries);
        return Err(AnamnesisError::limit("ZIP_MAX_ENTRIES", message));
    }
    budget.buffer(end.directory_bytes, "the ZIP central directory")?;
    let directory_end = end.directory_offset + end.directory_bytes;
    let mut window = Window::new(source, directory_end, READ_BYTES);
    let mut at = end.directory_offset;
    let mut records = Vec::with_capacity(end.entries.min(RESERVED_ENTRIES) as usize);
    for index in 0..end.entries {
        let what = || format!("entry {index} of the ZIP central directory");
        let fixed = window.bytes(at, FIXED_BYTES, &what)?;
        if &fixed[..4] != SIGNATURE {
            return Err(AnamnesisError::parse(format!("{} does not begin with its signature", what())));
        }
        let lengths = [28, 30, 32].map(|place| u64::from(u16_at(fixed, place)));
        if lengths[0] > ZIP_MAX_NAME_LEN {
            let message = format!("{} has a name of {} bytes, {ZIP_MAX_NAME_LEN} are allowed", what(), lengths[0]);
            return Err(AnamnesisError::limit("ZIP_MAX_NAME_LEN", message));
        }
        let bytes = FIXED_BYTES + lengths.iter().sum::<u64>();
        let record = window.bytes(at, bytes, &what)?;
        records.push(parse(record).map_err(|error| error.within(what()))?);
        at += bytes;
    }
    if at != directory_end {
        return Err(AnamnesisError::parse(format!(
            "the {} entries of the ZIP central directory end at byte {at}, the directory at {directory_end}",
            end.entries
        )));
    }
    Ok(records)
}

fn parse(record: &[u8]) -> Result<Record> {
    let (flags, method) = (u16_at(record, 8), u16_at(record, 10));
    let (name, extra) = name_and_extra(record, FIXED_BYTES as usize, u16_at(record, 28), u16_at(record, 30));
    let name = decode_name(name, flags)?;
    check_flags(flags, &name)?;
    let fields = Fields::parse(extra, &name)?;
    let mut wide = fields.zip64.unwrap_or_default();
    let mut number = |place: usize| zip64_value(u32_at(record, place), &mut wide, &name);
    let bytes = number(24)?;
    let stored_bytes = number(20)?;
    let header = number(42)?;
    match (u16_at(record, 34), wide) {
        (0, _) | (u16::MAX, [0, 0, 0, 0, ..]) => {}
        _ => return Err(AnamnesisError::unsupported("ZIP", format!("entry {} begins on another disk", quoted(&name)))),
    }
    let method = Method::new(method);
    if method == Method::Stored && stored_bytes != bytes {
        let name = quoted(&name);
        return Err(AnamnesisError::parse(format!("{name} is stored: {bytes} bytes cannot take {stored_bytes}")));
    }
    Ok(Record { name, flags, method, crc: u32_at(record, 16), stored_bytes, bytes, header })
}

/// The variable-length fields after the fixed part of a header.
pub(super) fn name_and_extra(header: &[u8], fixed: usize, name: u16, extra: u16) -> (&[u8], &[u8]) {
    let (name, rest) = header[fixed..].split_at(usize::from(name));
    (name, &rest[..usize::from(extra)])
}

/// A 32-bit field, or its value in the ZIP64 field if it is all ones.
pub(super) fn zip64_value(narrow: u32, wide: &mut &[u8], name: &str) -> Result<u64> {
    if narrow != u32::MAX {
        return Ok(u64::from(narrow));
    }
    let (number, rest) = wide.split_at_checked(8).ok_or_else(|| {
        AnamnesisError::parse(format!("{} refers to a number that its ZIP64 field does not have", quoted(name)))
    })?;
    *wide = rest;
    Ok(u64_at(number, 0))
}

fn decode_name(bytes: &[u8], flags: u16) -> Result<String> {
    let name = match str::from_utf8(bytes) {
        Ok(name) if flags & IS_UTF8 != 0 || name.is_ascii() => name,
        Ok(name) => {
            let detail = format!("the name of entry {} is neither ASCII nor marked as UTF-8", quoted(name));
            return Err(AnamnesisError::unsupported("ZIP", detail));
        }
        Err(error) => return Err(AnamnesisError::parse(format!("its name is not UTF-8: {error}"))),
    };
    // Readers that truncate names at a NUL would see a different name.
    if name.is_empty() || name.contains('\0') {
        return Err(AnamnesisError::parse(format!("{} is not a name", quoted(name))));
    }
    Ok(String::from(name))
}

fn check_flags(flags: u16, name: &str) -> Result<()> {
    let name = quoted(name);
    let why = if flags & ENCRYPTION_FLAGS != 0 {
        format!("entry {name} is encrypted")
    } else if flags & PATCH_FLAG != 0 {
        format!("entry {name} is a patch for another file")
    } else if flags & !KNOWN_FLAGS != 0 {
        format!("entry {name} has flag bits {:#06x}, {KNOWN_FLAGS:#06x} are known", flags)
    } else {
        return Ok(());
    };
    Err(AnamnesisError::unsupported("ZIP", why))
}

/// The relevant extra fields.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// 64-bit values of saturated header fields, in header order.
    pub zip64: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(mut extra: &'a [u8], name: &str) -> Result<Self> {
        let mut zip64 = None;
        // Up to three trailing bytes are padding.
        while let Some((head, rest)) = extra.split_at_checked(4) {
            let (tag, length) = (u16_at(head, 0), usize::from(u16_at(head, 2)));
            let (field, rest) = rest.split_at_checked(length).ok_or_else(|| {
                AnamnesisError::parse(format!("an extra field of {} takes {length} bytes, past its end", quoted(name)))
            })?;
            extra = rest;
            match tag {
                ZIP64_FIELD if zip64.replace(field).is_some() => {
                    return Err(AnamnesisError::parse(format!("{} has two ZIP64 fields", quoted(name))));
                }
                // One byte of version, four of CRC, then the name that some readers use instead of the header's.
                UNICODE_NAME_FIELD if field.get(5..) != Some(name.as_bytes()) => {
                    return Err(AnamnesisError::parse(format!("{} has another name in Unicode", quoted(name))));
                }
                _ => {}
            }
        }
        Ok(Self { zip64 })
    }
}
