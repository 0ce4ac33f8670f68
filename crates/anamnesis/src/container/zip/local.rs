//! The local headers of an archive, checked against the central directory and one another.

use super::central::{Fields, HAS_DESCRIPTOR, Record, name_and_extra, zip64_value};
use super::entry::{Entry, Method};
use super::window::Window;
use super::{LOCAL_SIGNATURE, begins_archive, u16_at, u32_at, u64_at};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::ReadAt;

const DESCRIPTOR_SIGNATURE: &[u8; 4] = b"PK\x07\x08";
const FIXED_BYTES: u64 = 30;
/// Bytes read at a time: a descriptor and the following header.
const READ_BYTES: u64 = 256;

/// The entry name of the local header at the start of `bytes`, if it is complete.
pub(super) fn entry_name(bytes: &[u8]) -> Option<&[u8]> {
    let fixed = bytes.get(..FIXED_BYTES as usize).filter(|fixed| begins_archive(fixed))?;
    bytes.get(fixed.len()..fixed.len() + usize::from(u16_at(fixed, 26)))
}

/// Checks that the entries fill the file from its first byte to the central directory.
pub(super) fn check(source: &(impl ReadAt + ?Sized), records: Vec<Record>, directory: u64) -> Result<Vec<Entry>> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&index| records[index].header);
    let headers = order.iter().map(|&index| records[index].header);
    let headers = headers.map(|header| header.min(directory)..header.saturating_add(READ_BYTES).min(directory));
    source.announce_reads(&headers.collect::<Vec<_>>());
    let mut window = Window::new(source, directory, READ_BYTES);
    let mut data = vec![0; records.len()];
    let mut expected = 0;
    for (place, &index) in order.iter().enumerate() {
        let record = &records[index];
        check_place(record.header, expected, || format!("ZIP entry {}", quoted(&record.name)))?;
        data[index] = check_header(&mut window, record)?;
        let end = data[index].checked_add(record.stored_bytes).filter(|&end| end <= directory).ok_or_else(|| {
            AnamnesisError::parse(format!(
                "ZIP entry {} takes {} bytes at {}, past the central directory at {directory}",
                quoted(&record.name),
                record.stored_bytes,
                data[index]
            ))
        })?;
        let next = order.get(place + 1).map_or(directory, |&next| records[next].header);
        expected = end + check_descriptor(&mut window, record, end, next)?;
    }
    check_place(directory, expected, || String::from("the ZIP central directory"))?;
    let entries = records.into_iter().zip(data).map(|(record, offset)| Entry {
        name: record.name,
        method: record.method,
        offset,
        stored_bytes: record.stored_bytes,
        bytes: record.bytes,
        crc: record.crc,
    });
    Ok(entries.collect())
}

fn check_place(found: u64, expected: u64, what: impl Fn() -> String) -> Result<()> {
    let how = match found.cmp(&expected) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => "overlaps the preceding entry",
        std::cmp::Ordering::Greater if expected == 0 => "leaves bytes in front of the archive",
        std::cmp::Ordering::Greater => "leaves a hole before it",
    };
    Err(AnamnesisError::parse(format!("{} begins at byte {found} and {how}: {expected} was expected", what())))
}

/// Checks a local header against the central directory and returns the offset of the data.
fn check_header(window: &mut Window<'_, impl ReadAt + ?Sized>, record: &Record) -> Result<u64> {
    let what = || format!("the local header of ZIP entry {}", quoted(&record.name));
    let fixed = window.bytes(record.header, FIXED_BYTES, &what)?;
    if &fixed[..4] != LOCAL_SIGNATURE {
        return Err(AnamnesisError::parse(format!("{} is not at byte {}", what(), record.header)));
    }
    let lengths = [u16_at(fixed, 26), u16_at(fixed, 28)];
    let header_bytes = FIXED_BYTES + lengths.map(u64::from).iter().sum::<u64>();
    let header = window.bytes(record.header, header_bytes, &what)?;
    let (name, extra) = name_and_extra(header, FIXED_BYTES as usize, lengths[0], lengths[1]);
    let disagree = |field: &str, local: String, central: String| {
        let reason = format!("{} and the central directory disagree about its {field}: {local}, {central}", what());
        Err(AnamnesisError::parse(reason))
    };
    if name != record.name.as_bytes() {
        return disagree("name", quoted(&String::from_utf8_lossy(name)), quoted(&record.name));
    }
    let (flags, method) = (u16_at(header, 6), u16_at(header, 8));
    if flags != record.flags {
        return disagree("flags", format!("{flags:#06x}"), format!("{:#06x}", record.flags));
    }
    if Method::new(method) != record.method {
        return disagree("method", method.to_string(), format!("{:?}", record.method));
    }
    let mut wide = Fields::parse(extra, &record.name)?.zip64.unwrap_or_default();
    let bytes = zip64_value(u32_at(header, 22), &mut wide, &record.name)?;
    let stored_bytes = zip64_value(u32_at(header, 18), &mut wide, &record.name)?;
    let crc = u32_at(header, 14);
    // With a descriptor, these fields are zero: the header was written before the data.
    let agrees = |local: u64, central: u64| local == central || (flags & HAS_DESCRIPTOR != 0 && local == 0);
    if !agrees(u64::from(crc), u64::from(record.crc)) {
        return disagree("CRC", format!("{crc:08x}"), format!("{:08x}", record.crc));
    }
    if !agrees(bytes, record.bytes) {
        return disagree("size", bytes.to_string(), record.bytes.to_string());
    }
    if !agrees(stored_bytes, record.stored_bytes) {
        return disagree("compressed size", stored_bytes.to_string(), record.stored_bytes.to_string());
    }
    Ok(record.header + header_bytes)
}

/// Checks the data descriptor between an entry's data and `next` against the directory, and returns its length.
fn check_descriptor(window: &mut Window<'_, impl ReadAt + ?Sized>, record: &Record, at: u64, next: u64) -> Result<u64> {
    if record.flags & HAS_DESCRIPTOR == 0 {
        return Ok(0);
    }
    let name = || quoted(&record.name);
    let bytes = next.checked_sub(at).filter(|bytes| matches!(bytes, 0 | 12 | 16 | 20 | 24)).ok_or_else(|| {
        AnamnesisError::parse(format!("there is no data descriptor between ZIP entry {} and byte {next}", name()))
    })?;
    // Some writers omit the descriptor of an empty entry.
    if bytes == 0 && record.bytes == 0 && record.crc == 0 {
        return Ok(0);
    }
    let descriptor = window.bytes(at, bytes, &|| format!("the data descriptor of ZIP entry {}", name()))?;
    let descriptor = match bytes {
        16 | 24 => descriptor.strip_prefix(DESCRIPTOR_SIGNATURE),
        _ => Some(descriptor),
    };
    let numbers = descriptor.and_then(|numbers| match numbers.len() {
        12 => Some((u32_at(numbers, 0), u64::from(u32_at(numbers, 4)), u64::from(u32_at(numbers, 8)))),
        20 => Some((u32_at(numbers, 0), u64_at(numbers, 4), u64_at(numbers, 12))),
        _ => None,
    });
    if numbers != Some((record.crc, record.stored_bytes, record.bytes)) {
        return Err(AnamnesisError::parse(format!(
            "the data descriptor of ZIP entry {} and the central directory disagree",
            name()
        )));
    }
    Ok(bytes)
}
