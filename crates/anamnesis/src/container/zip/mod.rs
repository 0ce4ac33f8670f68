//! ZIP archives: entries, the central directory, and the end record that locates it.
//!
//! | part | content |
//! |---|---|
//! | per entry | local header (30 bytes, name, extra fields), data, a data descriptor where flag bit 3 is set |
//! | central directory | per entry 46 bytes, name, extra fields, comment |
//! | end, ZIP64 | record of 56 bytes and locator of 20, if a value exceeds the fields of the end record |
//! | end | 22 bytes and a comment, up to the end of the file |
//!
//! ZIP stores most values twice, and readers that use different copies see different archives. So an archive is
//! accepted only if it is unambiguous: both headers of every entry agree, the entries fill the file from its first
//! byte to the directory without holes or overlaps, the directory ends at its end record, that record ends with the
//! file, and names are unique. Encrypted and multi-disk archives are refused. Entries are stored or deflated; other
//! methods are refused when the entry is read. Names are never used as paths here. The format is specified in
//! PKWARE's APPNOTE.TXT.

mod behind;
mod central;
mod consecutive;
mod damage;
mod end;
mod entry;
mod inflated;
mod local;
mod spill;
mod window;
mod write;

use crate::error::{AnamnesisError, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

pub(crate) use behind::behind;
pub(crate) use consecutive::consecutive;
pub(crate) use damage::checksum_errors;
pub(crate) use entry::{Entry, Method};
pub(crate) use inflated::{Inflated, read_prefix, read_whole};
pub(crate) use spill::Spill;
pub(crate) use write::{EntryHeaders, check_new_names, end_of_archive};

/// Signature of a local header, and so of every non-empty archive.
const LOCAL_SIGNATURE: &[u8; 4] = b"PK\x03\x04";

/// Maximum number of entries.
pub(crate) const ZIP_MAX_ENTRIES: u64 = 1 << 20;
/// Maximum length of an entry name in bytes.
pub(crate) const ZIP_MAX_NAME_LEN: u64 = 4096;

/// A stored entry that is verified while it is read.
pub(crate) type Checked = crate::container::checked::Checked<Entry>;

/// Whether a file starts with a local header.
pub(crate) fn begins_archive(head: &[u8]) -> bool {
    head.starts_with(LOCAL_SIGNATURE)
}

/// The name of the first entry, if it is completely in `head`.
pub(crate) fn first_name(head: &[u8]) -> Option<&[u8]> {
    local::entry_name(head)
}

/// The entries of an archive, in directory order.
#[derive(Debug)]
pub(crate) struct Archive {
    pub entries: Vec<Entry>,
}

impl Archive {
    /// Reads and validates all headers of an archive.
    pub(crate) fn read(source: &(impl ReadAt + ?Sized), budget: &mut Budget) -> Result<Self> {
        let end = end::find(source)?;
        let records = central::read(source, &end, budget)?;
        let entries = local::check(source, records, end.directory_offset)?;
        refuse_duplicate_names(entries.iter().map(|entry| entry.name.as_str()))?;
        Ok(Self { entries })
    }
}

/// Refuses duplicate names, also those that differ only in their path separators.
fn refuse_duplicate_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let read = |name: &'a str| name.bytes().map(|byte| if byte == b'\\' { b'/' } else { byte });
    let mut names: Vec<&str> = names.collect();
    names.sort_by(|a, b| read(a).cmp(read(b)));
    match names.windows(2).find(|pair| read(pair[0]).eq(read(pair[1]))) {
        Some(pair) => {
            let (other, name) = (pair[0], pair[1]);
            let (a, b) = (quoted(other), quoted(name));
            let how =
                if other == name { String::from("occurs twice") } else { format!("and {b} can be taken for one") };
            Err(AnamnesisError::parse(format!("ZIP entry {a} {how}")))
        }
        None => Ok(()),
    }
}

/// Little-endian fields of a header.
fn u16_at(header: &[u8], at: usize) -> u16 {
    let mut bytes = [0; 2];
    bytes.copy_from_slice(&header[at..at + 2]);
    u16::from_le_bytes(bytes)
}

fn u32_at(header: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(header: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}
