//! An entry of an archive.

use crate::container::checked::{Summed, is_same};
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Maximum expansion of deflate: 258 bytes for every two bits.
const MAX_GROWTH: u64 = 1032;

/// Compression method of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
    /// An unsupported method, by its number.
    Other(u16),
}

impl Method {
    pub(super) fn new(number: u16) -> Self {
        match number {
            0 => Self::Stored,
            8 => Self::Deflated,
            other => Self::Other(other),
        }
    }
}

/// An entry with validated headers. Its data is inside the file; the inflated content is not validated yet.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub name: String,
    pub method: Method,
    /// Absolute offset of the data.
    pub offset: u64,
    /// Compressed size.
    pub stored_bytes: u64,
    /// Uncompressed size.
    pub bytes: u64,
    pub crc: u32,
}

impl Entry {
    /// Refuses an entry with an unsupported method, reported under `format`, or one that expands beyond the caller's
    /// limits.
    pub(crate) fn check_readable(&self, format: &str, budget: &Budget) -> Result<()> {
        match self.method {
            Method::Stored => Ok(()),
            Method::Deflated if self.bytes / MAX_GROWTH > self.stored_bytes => {
                let (name, bytes, stored) = (quoted(&self.name), self.bytes, self.stored_bytes);
                Err(AnamnesisError::parse(format!("ZIP entry {name}: {stored} bytes cannot inflate to {bytes}")))
            }
            Method::Deflated => {
                budget.growth(self.stored_bytes, self.bytes, &format!("ZIP entry {}", quoted(&self.name)))
            }
            Method::Other(number) => {
                let method = method_name(number);
                let detail = format!(
                    "ZIP entry {} is compressed by {method} (method {number}); stored and deflated entries are read",
                    quoted(&self.name)
                );
                Err(AnamnesisError::unsupported(format, detail))
            }
        }
    }

    /// Refuses content with another CRC than that of the directory.
    pub(super) fn check_crc(&self, found: u32) -> Result<()> {
        if is_same(found, self.crc) {
            return Ok(());
        }
        let (name, wanted) = (quoted(&self.name), self.crc);
        Err(AnamnesisError::parse(format!(
            "ZIP entry {name} is damaged: its CRC is {found:08x}, {wanted:08x} was written"
        )))
    }
}

impl Summed for Entry {
    fn place(&self) -> (u64, u64) {
        (self.offset, self.bytes)
    }

    fn crc(bytes: &[u8]) -> u32 {
        crc32fast::hash(bytes)
    }

    fn combine(first: u32, second: u32, second_bytes: u64) -> u32 {
        let mut both = crc32fast::Hasher::new_with_initial(first);
        both.combine(&crc32fast::Hasher::new_with_initial_len(second, second_bytes));
        both.finalize()
    }

    fn check(&self, found: u32) -> Result<()> {
        self.check_crc(found)
    }
}

fn method_name(number: u16) -> &'static str {
    match number {
        1 => "Shrink",
        2..=5 => "Reduce",
        6 => "Implode",
        9 => "Deflate64",
        10 => "DCL Implode",
        12 => "bzip2",
        14 => "LZMA",
        20 | 93 => "Zstandard",
        94 => "MP3",
        95 => "XZ",
        96 => "JPEG",
        97 => "WavPack",
        98 => "PPMd",
        99 => "AES encryption",
        _ => "an unknown method",
    }
}
