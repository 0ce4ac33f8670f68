//! The superblock, and reading at addresses.
//!
//! | version | size of addresses and lengths | base address | end of the file | root |
//! |---|---|---|---|---|
//! | 0, 1 | bytes 13, 14 | byte 24, 28 | byte 40, 44 | object header at byte 64, 68 |
//! | 2, 3 | bytes 9, 10 | byte 12 | byte 28 | object header at byte 36 |

use super::lookup3::lookup3;
use crate::container::checked::is_same;
use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result};

pub(super) const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// The address of nothing.
const UNDEFINED: u64 = u64::MAX;
/// The first place of a superblock behind a user block; the next ones are at its doubles.
const FIRST_PLACE: u64 = 512;

/// A file whose superblock has been read.
pub(super) struct File<'p, 's> {
    pages: &'p Pages<'s>,
    /// The offset that addresses count from.
    base: u64,
    /// The address of the root group's header.
    pub(super) root: u64,
}

impl<'p, 's> File<'p, 's> {
    pub(super) fn new(pages: &'p Pages<'s>) -> Result<Self> {
        let mut at = 0;
        while pages.array::<8>(at).is_ok_and(|bytes| bytes != *SIGNATURE) {
            at = if at == 0 { FIRST_PLACE } else { at * 2 };
        }
        if pages.array::<8>(at)? != *SIGNATURE {
            return Err(AnamnesisError::parse("there is no superblock"));
        }
        let version = pages.u8(at + 8)?;
        let (sizes, base_at, end_at, root_at) = match version {
            0 => (at + 13, at + 24, at + 40, at + 64),
            1 => (at + 13, at + 28, at + 44, at + 68),
            2 | 3 => (at + 9, at + 12, at + 28, at + 36),
            other => {
                return Err(AnamnesisError::unsupported(super::NAME, format!("superblock version {other}")));
            }
        };
        if pages.array::<2>(sizes)? != [8, 8] {
            return Err(AnamnesisError::unsupported(super::NAME, "addresses or lengths of other than eight bytes"));
        }
        let (base, end) = (pages.u64(base_at)?, pages.u64(end_at)?);
        // The end counts from byte 0, also behind a user block.
        if end > pages.len() {
            let why = format!("the file was written to byte {end}, it ends at byte {}", pages.len());
            return Err(AnamnesisError::parse(why));
        }
        let file = Self { pages, base, root: pages.u64(root_at)? };
        if version >= 2 {
            file.checked(pages.read(at..at + 48)?, at)?;
        }
        Ok(file)
    }

    /// The offset of an address in the file; so many bytes must be there.
    pub(super) fn offset(&self, address: u64, bytes: u64) -> Result<u64> {
        let offset = self.base.checked_add(address).filter(|_| address != UNDEFINED);
        let offset = offset.ok_or_else(|| AnamnesisError::parse(format!("the address {address} leads nowhere")))?;
        self.pages.check(offset, bytes)?;
        Ok(offset)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.pages.len()
    }

    /// The offset of the file's bytes in its source.
    pub(super) fn start(&self) -> u64 {
        self.pages.start()
    }

    pub(super) fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>> {
        let offset = self.offset(address, bytes)?;
        self.pages.read(offset..offset + bytes)
    }

    pub(super) fn array<const BYTES: usize>(&self, address: u64) -> Result<[u8; BYTES]> {
        self.pages.array(self.offset(address, BYTES as u64)?)
    }

    /// A structure that starts with a signature, of so many bytes.
    pub(super) fn signed(&self, address: u64, signature: &[u8; 4], bytes: u64) -> Result<Vec<u8>> {
        let read = self.read(address, bytes)?;
        if read.starts_with(signature) {
            return Ok(read);
        }
        let name = String::from_utf8_lossy(signature).into_owned();
        Err(AnamnesisError::parse(format!("there is no {name} at address {address}")))
    }

    /// A structure that starts with a signature and has a checksum behind so many bytes.
    pub(super) fn summed(&self, address: u64, signature: &[u8; 4], bytes: u64) -> Result<Vec<u8>> {
        self.checked(self.signed(address, signature, bytes.saturating_add(CHECKSUM_BYTES))?, address)
    }

    /// Bytes in front of their checksum.
    pub(super) fn checked(&self, mut bytes: Vec<u8>, address: u64) -> Result<Vec<u8>> {
        match bytes.split_last_chunk() {
            Some((front, sum)) if is_same(lookup3(front), u32::from_le_bytes(*sum)) => {
                bytes.truncate(front.len());
                Ok(bytes)
            }
            _ => Err(AnamnesisError::parse(format!(
                "the structure at address {address} is damaged: its checksum is another"
            ))),
        }
    }
}

/// Bytes of the checksum at the end of newer structures.
pub(super) const CHECKSUM_BYTES: u64 = 4;

/// An address that may lead nowhere.
pub(super) fn defined(address: u64) -> Option<u64> {
    (address != UNDEFINED).then_some(address)
}

/// Little-endian numbers of a structure that has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'b> {
    rest: &'b [u8],
    /// The number of bytes taken.
    pub(super) taken: usize,
}

impl<'b> Bytes<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, taken: 0 }
    }

    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let left = self.rest.len();
        let fault = || AnamnesisError::parse(format!("a structure has {left} bytes left, {count} were expected"));
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(fault)?;
        self.rest = rest;
        self.taken += count;
        Ok(taken)
    }

    /// A number of up to eight bytes.
    pub(super) fn number(&mut self, count: usize) -> Result<u64> {
        let taken = self.take(count.min(8))?;
        Ok(taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.number(1)? as u8)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(self.number(2)? as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(self.number(4)? as u32)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.number(8)
    }

    /// Text up to a zero byte or the end.
    pub(super) fn text(&mut self, count: usize) -> Result<String> {
        let bytes = self.take(count)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8(text.to_vec()).map_err(|_| AnamnesisError::parse("a name is not UTF-8"))
    }
}
