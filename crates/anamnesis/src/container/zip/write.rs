//! Headers of new archives: stored entries, ZIP64 only if a value requires it.

use super::{ZIP_MAX_NAME_LEN, refuse_duplicate_names};
use crate::error::{AnamnesisError, Result, quoted};

const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
/// 1 January 1980, the ZIP epoch: archives do not depend on the time of writing.
const DATE: u16 = 1 << 5 | 1;
/// The host system of the attributes. With this one, all tools accept UTF-8 names.
const UNIX: u16 = 3 << 8;
/// Regular file, 0644.
const FILE_MODE: u32 = 0o100_644;
const UTF8_FLAG: u16 = 1 << 11;
/// Extra field with the padding that aligns the data, as written by Android's tools.
const ALIGNMENT_FIELD: u16 = 0xd935;
const ZIP64_FIELD: u16 = 1;
const LOCAL_BYTES: u64 = 30;
const CENTRAL_BYTES: u64 = 46;

/// The local and the central header of a stored entry.
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
    /// An entry whose local header is at `offset` and whose data is aligned.
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

    fn has_wide_size(&self) -> bool {
        self.bytes >= u64::from(u32::MAX)
    }

    fn has_wide_offset(&self) -> bool {
        self.offset >= u64::from(u32::MAX)
    }

    fn local_extra_bytes(&self) -> u64 {
        (if self.has_wide_size() { 20 } else { 0 }) + 6 + self.padding
    }

    fn central_extra_bytes(&self) -> u64 {
        match (self.has_wide_size(), self.has_wide_offset()) {
            (false, false) => 0,
            (large, far) => 4 + if large { 16 } else { 0 } + if far { 8 } else { 0 },
        }
    }

    /// Offset of the data.
    pub(crate) fn data_offset(&self) -> u64 {
        self.offset + LOCAL_BYTES + self.name.len() as u64 + self.local_extra_bytes()
    }

    pub(crate) fn central_bytes(&self) -> u64 {
        CENTRAL_BYTES + self.name.len() as u64 + self.central_extra_bytes()
    }

    /// The fields that both headers share, from the version on.
    fn common(&self, crc: u32, extra_bytes: u64) -> Vec<u8> {
        let mut header = Vec::new();
        let version = if self.has_wide_size() || self.has_wide_offset() { VERSION_64 } else { VERSION };
        let flags = if self.name.is_ascii() { 0 } else { UTF8_FLAG };
        for half in [version, flags, 0, 0, DATE] {
            header.extend(half.to_le_bytes());
        }
        header.extend(crc.to_le_bytes());
        header.extend(narrow(self.bytes).to_le_bytes());
        header.extend(narrow(self.bytes).to_le_bytes());
        // Both fit: names are validated before, and the extra fields are bounded.
        header.extend((self.name.len() as u16).to_le_bytes());
        header.extend((extra_bytes as u16).to_le_bytes());
        header
    }

    pub(crate) fn local(&self, crc: u32) -> Vec<u8> {
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(self.common(crc, self.local_extra_bytes()));
        header.extend(self.name.as_bytes());
        if self.has_wide_size() {
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
        // No comment, disk 0, no internal attributes.
        header.extend([0; 6]);
        header.extend((FILE_MODE << 16).to_le_bytes());
        header.extend(narrow(self.offset).to_le_bytes());
        header.extend(self.name.as_bytes());
        let large = [self.bytes, self.bytes];
        let wide: Vec<u64> = large
            .into_iter()
            .filter(|_| self.has_wide_size())
            .chain(self.has_wide_offset().then_some(self.offset))
            .collect();
        if !wide.is_empty() {
            header.extend(zip64_field(&wide));
        }
        header
    }
}

/// A 32-bit field; all ones if the value is in the ZIP64 field.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn zip64_field(numbers: &[u64]) -> Vec<u8> {
    let mut field = ZIP64_FIELD.to_le_bytes().to_vec();
    field.extend((numbers.len() as u16 * 8).to_le_bytes());
    field.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    field
}

/// The end records of an archive.
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

/// Refuses names that the reader would not accept.
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
    refuse_duplicate_names(names.into_iter())
}
