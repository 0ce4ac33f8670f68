//! Headers of new archives: entries stored as they are, ZIP64 only where a number needs it.

use super::{ZIP_MAX_NAME_LEN, refuse_twins};
use crate::error::{AnamnesisError, Result, quoted};

const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
/// 1 January 1980, the first date ZIP has: archives do not depend on when they are written.
const DATE: u16 = 1 << 5 | 1;
/// The system whose attributes an entry has. It also lets every tool take a UTF-8 name as it is.
const UNIX: u16 = 3 << 8;
/// A file that its owner may write and everyone may read.
const FILE_MODE: u32 = 0o100_644;
const UTF8_FLAG: u16 = 1 << 11;
/// Zeros in front of data that is to be aligned, as Android's tools write them.
const ALIGNMENT_FIELD: u16 = 0xd935;
const ZIP64_FIELD: u16 = 1;
const LOCAL_BYTES: u64 = 30;
const CENTRAL_BYTES: u64 = 46;

/// The two headers of a stored entry.
#[derive(Debug)]
pub(crate) struct EntryHeaders {
    name: String,
    offset: u64,
    bytes: u64,
    /// Zeros in the alignment field.
    padding: u64,
    alignment: u16,
}

impl EntryHeaders {
    /// An entry whose header is at `offset`, and whose data begins at a multiple of `alignment`.
    pub(crate) fn new(name: String, offset: u64, bytes: u64, alignment: u64) -> Self {
        let mut headers = Self { name, offset, bytes, padding: 0, alignment: alignment as u16 };
        let unpadded = headers.data_offset();
        headers.padding = unpadded.next_multiple_of(alignment) - unpadded;
        headers
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    fn is_large(&self) -> bool {
        self.bytes >= u64::from(u32::MAX)
    }

    fn is_far(&self) -> bool {
        self.offset >= u64::from(u32::MAX)
    }

    fn local_extra_bytes(&self) -> u64 {
        (if self.is_large() { 20 } else { 0 }) + 6 + self.padding
    }

    fn central_extra_bytes(&self) -> u64 {
        match (self.is_large(), self.is_far()) {
            (false, false) => 0,
            (large, far) => 4 + if large { 16 } else { 0 } + if far { 8 } else { 0 },
        }
    }

    /// Where the data begins.
    pub(crate) fn data_offset(&self) -> u64 {
        self.offset + LOCAL_BYTES + self.name.len() as u64 + self.local_extra_bytes()
    }

    pub(crate) fn central_bytes(&self) -> u64 {
        CENTRAL_BYTES + self.name.len() as u64 + self.central_extra_bytes()
    }

    /// What both headers have in common, from the version on.
    fn common(&self, crc: u32, extra_bytes: u64) -> Vec<u8> {
        let mut header = Vec::new();
        let version = if self.is_large() || self.is_far() { VERSION_64 } else { VERSION };
        let flags = if self.name.is_ascii() { 0 } else { UTF8_FLAG };
        for half in [version, flags, 0, 0, DATE] {
            header.extend(half.to_le_bytes());
        }
        header.extend(crc.to_le_bytes());
        header.extend(narrow(self.bytes).to_le_bytes());
        header.extend(narrow(self.bytes).to_le_bytes());
        // Both are short: names are checked before anything is written, and the extra fields are ours.
        header.extend((self.name.len() as u16).to_le_bytes());
        header.extend((extra_bytes as u16).to_le_bytes());
        header
    }

    pub(crate) fn local(&self, crc: u32) -> Vec<u8> {
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(self.common(crc, self.local_extra_bytes()));
        header.extend(self.name.as_bytes());
        if self.is_large() {
            header.extend(zip64_field(&[self.bytes, self.bytes]));
        }
        for half in [ALIGNMENT_FIELD, 2 + self.padding as u16, self.alignment] {
            header.extend(half.to_le_bytes());
        }
        header.extend(std::iter::repeat_n(0, self.padding as usize));
        header
    }

    pub(crate) fn central(&self, crc: u32) -> Vec<u8> {
        let mut header = b"PK\x01\x02".to_vec();
        header.extend((UNIX | VERSION_64).to_le_bytes());
        header.extend(self.common(crc, self.central_extra_bytes()));
        // No comment, disk 0, no attributes of the content.
        header.extend([0; 6]);
        header.extend((FILE_MODE << 16).to_le_bytes());
        header.extend(narrow(self.offset).to_le_bytes());
        header.extend(self.name.as_bytes());
        let large = [self.bytes, self.bytes];
        let wide: Vec<u64> =
            large.into_iter().filter(|_| self.is_large()).chain(self.is_far().then_some(self.offset)).collect();
        if !wide.is_empty() {
            header.extend(zip64_field(&wide));
        }
        header
    }
}

/// A number in a field of 32 bits, or what stands there when it is in the ZIP64 field.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn zip64_field(numbers: &[u64]) -> Vec<u8> {
    let mut field = ZIP64_FIELD.to_le_bytes().to_vec();
    field.extend((numbers.len() as u16 * 8).to_le_bytes());
    field.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    field
}

/// The end records of an archive whose directory is known.
pub(crate) fn end_of_archive(entries: u64, directory: u64, directory_bytes: u64) -> Vec<u8> {
    let mut end = Vec::new();
    let is_wide =
        entries >= u64::from(u16::MAX) || directory >= u64::from(u32::MAX) || directory_bytes >= u64::from(u32::MAX);
    if is_wide {
        end.extend(b"PK\x06\x06");
        end.extend(44u64.to_le_bytes());
        end.extend(VERSION_64.to_le_bytes());
        end.extend(VERSION_64.to_le_bytes());
        end.extend([0; 8]);
        for number in [entries, entries, directory_bytes, directory] {
            end.extend(number.to_le_bytes());
        }
        end.extend(b"PK\x06\x07");
        end.extend([0; 4]);
        end.extend((directory + directory_bytes).to_le_bytes());
        end.extend(1u32.to_le_bytes());
    }
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    end.extend(b"PK\x05\x06");
    end.extend([0; 4]);
    end.extend(count.to_le_bytes());
    end.extend(count.to_le_bytes());
    end.extend(narrow(directory_bytes).to_le_bytes());
    end.extend(narrow(directory).to_le_bytes());
    end.extend([0; 2]);
    end
}

/// Refuses names that could not be read back.
pub(crate) fn check_new_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let check = |name: &'a str| {
        if name.contains('\0') {
            return Err(AnamnesisError::parse(format!("{} cannot be the name of a ZIP entry", quoted(name))));
        }
        if name.len() as u64 > ZIP_MAX_NAME_LEN {
            let message = format!("ZIP entry {} has a name of {} bytes", quoted(name), name.len());
            return Err(AnamnesisError::limit("ZIP_MAX_NAME_LEN", message));
        }
        Ok(name)
    };
    let names = names.map(check).collect::<Result<Vec<_>>>()?;
    refuse_twins(names.into_iter())
}
