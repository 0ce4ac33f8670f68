//! The end record of an archive and its ZIP64 form, which locate the central directory.

use super::{begins_archive, u16_at, u32_at, u64_at};
use crate::error::{AnamnesisError, Result};
use crate::io::ReadAt;

pub(super) const END: &[u8; 4] = b"PK\x05\x06";
const LOCATOR_64: &[u8; 4] = b"PK\x06\x07";
const END_64: &[u8; 4] = b"PK\x06\x06";

const END_BYTES: u64 = 22;
const LOCATOR_64_BYTES: u64 = 20;
const END_64_BYTES: u64 = 56;
const MAX_COMMENT_BYTES: u64 = u16::MAX as u64;

/// The position of the central directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub entries: u64,
    pub directory_offset: u64,
    pub directory_bytes: u64,
}

/// The central directory of the last of several archives, before it is known where that archive begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its end in the file.
    pub directory_end: u64,
    pub directory_bytes: u64,
    /// Its offset in the archive.
    pub directory_offset: u64,
}

/// Finds the central directory of the last archive of a file.
pub(super) fn locate(source: &(impl ReadAt + ?Sized)) -> Result<Place> {
    let (at, record) = end_record(source)?;
    let (directory_bytes, directory_offset) = (u32_at(&record, 12).into(), u32_at(&record, 16).into());
    let narrow = Place { directory_end: at, directory_bytes, directory_offset };
    let Some(start) = at.checked_sub(LOCATOR_64_BYTES + END_64_BYTES) else { return Ok(narrow) };
    // The ZIP64 record, if there is one, and its locator are right before the end record.
    let mut wide = [0; (END_64_BYTES + LOCATOR_64_BYTES) as usize];
    source.fill_at(start, &mut wide)?;
    let is_wide = wide.starts_with(END_64)
        && wide.get(END_64_BYTES as usize..).is_some_and(|locator| locator.starts_with(LOCATOR_64))
        && u64_at(&wide, 4).checked_add(12) == Some(END_64_BYTES);
    Ok(match is_wide {
        true => Place { directory_end: start, directory_bytes: u64_at(&wide, 40), directory_offset: u64_at(&wide, 48) },
        false => narrow,
    })
}

/// The offset of the only end record, and its bytes.
fn end_record(source: &(impl ReadAt + ?Sized)) -> Result<(u64, Vec<u8>)> {
    let file_bytes = source.bytes();
    let tail_bytes = file_bytes.min(END_BYTES + MAX_COMMENT_BYTES);
    let mut tail = vec![0; tail_bytes as usize];
    source.fill_at(file_bytes - tail_bytes, &mut tail)?;
    match last_record(&tail)? {
        Some(at) => Ok((file_bytes - tail_bytes + at as u64, tail.split_off(at))),
        None => Err(no_end(source)?),
    }
}

/// Finds the only end record and validates it.
pub(super) fn find(source: &(impl ReadAt + ?Sized)) -> Result<End> {
    let (at, record) = end_record(source)?;
    let record = &record[..];
    let disks = [u16_at(record, 4), u16_at(record, 6)];
    let counts = [u16_at(record, 8), u16_at(record, 10)];
    let (directory_bytes, directory_offset) = (u32_at(record, 12), u32_at(record, 16));
    if disks.iter().any(|&disk| disk != 0 && disk != u16::MAX) || counts[0] != counts[1] {
        return Err(several_disks());
    }
    let mut end = End {
        entries: u64::from(counts[0]),
        directory_offset: u64::from(directory_offset),
        directory_bytes: u64::from(directory_bytes),
    };
    let mut directory_end = at;
    if let Some((wide, start)) = zip64(source, at)? {
        let agrees = |narrow: u64, sentinel: u64, wide: u64| narrow == wide || narrow == sentinel;
        if !agrees(end.entries, u64::from(u16::MAX), wide.entries)
            || !agrees(end.directory_bytes, u64::from(u32::MAX), wide.directory_bytes)
            || !agrees(end.directory_offset, u64::from(u32::MAX), wide.directory_offset)
        {
            return Err(AnamnesisError::parse(format!(
                "the ZIP64 end record and the end record disagree about the central directory: {wide:?}, {end:?}"
            )));
        }
        (end, directory_end) = (wide, start);
    } else if disks != [0, 0] {
        return Err(several_disks());
    }
    if end.directory_offset.checked_add(end.directory_bytes) != Some(directory_end) {
        return Err(AnamnesisError::parse(format!(
            "the ZIP central directory takes {} bytes at {}, it should end at byte {directory_end} where its end record \
             begins; bytes in front of an archive are not allowed",
            end.directory_bytes, end.directory_offset
        )));
    }
    Ok(end)
}

/// The offset of the end record in the last bytes of a file. Its comment must end with the file. The last signature
/// must belong to this record, and there must not be a second one, or readers would disagree.
fn last_record(tail: &[u8]) -> Result<Option<usize>> {
    let signatures = tail.windows(END.len()).enumerate().filter(|(_, bytes)| bytes == END).map(|(at, _)| at);
    let ends = |at: usize| {
        let record = tail.get(at..at + END_BYTES as usize);
        record.is_some_and(|record| at + record.len() + usize::from(u16_at(record, 20)) == tail.len())
    };
    let (mut last, mut records) = (None, 0);
    for at in signatures {
        last = Some(at);
        records += usize::from(ends(at));
    }
    match last {
        None => Ok(None),
        Some(at) if !ends(at) => Err(AnamnesisError::parse(
            "the ZIP end record and its comment do not end where the file ends: the archive is truncated, or something was \
             appended to it",
        )),
        Some(_) if records > 1 => {
            Err(AnamnesisError::parse(format!("{records} ZIP end records end with the file, one is allowed")))
        }
        found => Ok(found),
    }
}

/// The ZIP64 end record and its offset, if there is one before the end record at `end`.
fn zip64(source: &(impl ReadAt + ?Sized), end: u64) -> Result<Option<(End, u64)>> {
    let Some(locator_at) = end.checked_sub(LOCATOR_64_BYTES) else { return Ok(None) };
    let mut locator = [0; LOCATOR_64_BYTES as usize];
    source.fill_at(locator_at, &mut locator)?;
    if &locator[..4] != LOCATOR_64 {
        return Ok(None);
    }
    if u32_at(&locator, 4) != 0 || u32_at(&locator, 16) > 1 {
        return Err(several_disks());
    }
    let start = u64_at(&locator, 8);
    let misplaced =
        || AnamnesisError::parse(format!("the ZIP64 end record is not at byte {start}, in front of its locator"));
    let room = locator_at.checked_sub(start).filter(|&room| room >= END_64_BYTES).ok_or_else(misplaced)?;
    let mut record = [0; END_64_BYTES as usize];
    source.fill_at(start, &mut record)?;
    // The length field excludes the signature and itself.
    if &record[..4] != END_64 || u64_at(&record, 4).checked_add(12) != Some(room) {
        return Err(misplaced());
    }
    if u32_at(&record, 16) != 0 || u32_at(&record, 20) != 0 || u64_at(&record, 24) != u64_at(&record, 32) {
        return Err(several_disks());
    }
    let wide = End {
        entries: u64_at(&record, 32),
        directory_bytes: u64_at(&record, 40),
        directory_offset: u64_at(&record, 48),
    };
    Ok(Some((wide, start)))
}

fn several_disks() -> AnamnesisError {
    AnamnesisError::unsupported("ZIP", "the archive is one part of several disks")
}

fn no_end(source: &(impl ReadAt + ?Sized)) -> Result<AnamnesisError> {
    Ok(AnamnesisError::parse(match begins_archive(&source.head()?) {
        true => "the ZIP archive has no end record: it is truncated, or not completely downloaded",
        false => "this is not a ZIP archive: it has no end record",
    }))
}
