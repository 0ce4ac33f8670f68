//! An entry of an archive: where its bytes are, and what they should be.

use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Bytes that one byte of deflate data can become: 258 for every two bits.
const MAX_GROWTH: u64 = 1032;

/// How an entry's bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
    /// A method that is not read, by its number.
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

/// An entry whose headers have been checked. Its data lies inside the file; what it inflates to has not been looked at.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub name: String,
    pub method: Method,
    /// Absolute offset of the data.
    pub offset: u64,
    /// Bytes of the data in the file.
    pub stored_bytes: u64,
    /// Bytes of the entry itself; the same where it is stored.
    pub bytes: u64,
    pub crc: u32,
}

impl Entry {
    /// Refuses an entry whose bytes cannot be had: one of an unknown method, in the name of the `format` that asks, or one
    /// that would grow beyond what the caller allows.
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
