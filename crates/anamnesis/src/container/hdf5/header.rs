//! Object headers: the messages that describe a group or a dataset.
//!
//! | version | head | message |
//! |---|---|---|
//! | 1 | 1, 0, u16 messages, u32 references, u32 bytes, 4 bytes | u16 type, u16 bytes, u8 flags, 3 bytes, content |
//! | 2 | `OHDR`, 2, u8 flags, optional times and limits, bytes of messages | u8 type, u16 bytes, u8 flags, optional order, content |
//!
//! A continuation leads to a block of further messages; in version 2 it starts with `OCHK` and ends with a checksum.

use super::file::{Bytes, CHECKSUM_BYTES, File};
use crate::error::{AnamnesisError, Result};

const CONTINUATION: u16 = 16;
/// Maximum bytes of all messages of an object, and of blocks of them.
const MAX_BYTES: u64 = 16 << 20;
const MAX_BLOCKS: usize = 1024;

/// A message.
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: u8,
    pub(super) content: Vec<u8>,
    /// The address of the content.
    pub(super) address: u64,
}

impl Message {
    pub(super) fn bytes(&self) -> Bytes<'_> {
        Bytes::new(&self.content)
    }

    /// Whether the content is a reference to a message elsewhere.
    pub(super) const fn is_shared(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// The messages of the object whose header is at an address.
pub(super) fn messages(file: &File<'_, '_>, address: u64) -> Result<Vec<Message>> {
    let head: [u8; 16] = file.array(address)?;
    // The size of a message's head, and the blocks of messages with their addresses.
    let (head_bytes, mut blocks, is_second) = match head {
        [1, ..] => {
            let [.., a, b, c, d, _, _, _, _] = head;
            (8, vec![(address + 16, u64::from(u32::from_le_bytes([a, b, c, d])))], false)
        }
        [b'O', b'H', b'D', b'R', 2, flags, ..] => {
            let skipped = 6 + if flags & 0x20 == 0 { 0 } else { 16 } + if flags & 0x10 == 0 { 0 } else { 4 };
            let width = 1u64 << (flags & 3);
            let bytes = Bytes::new(&file.read(address + skipped, width)?).number(width as usize)?;
            file.summed(address, b"OHDR", (skipped + width).saturating_add(bytes.min(MAX_BYTES)))?;
            (if flags & 4 == 0 { 4 } else { 6 }, vec![(address + skipped + width, bytes)], true)
        }
        _ => return Err(AnamnesisError::parse(format!("there is no object header at address {address}"))),
    };
    let (mut found, mut total, mut next) = (Vec::new(), 0u64, 0);
    while let Some(&(start, bytes)) = blocks.get(next) {
        next += 1;
        total = total.saturating_add(bytes);
        if total > MAX_BYTES || blocks.len() > MAX_BLOCKS {
            let why = format!("an object has {total} bytes of messages, {MAX_BYTES} are allowed");
            return Err(AnamnesisError::limit("MAX_HEADER_BYTES", why));
        }
        let block = file.read(start, bytes)?;
        let mut rest = Bytes::new(&block);
        while rest.remaining() >= head_bytes {
            let (kind, size, flags) = match is_second {
                false => {
                    let head = (rest.u16()?, rest.u16()?, rest.u8()?);
                    rest.take(3)?;
                    head
                }
                true => {
                    let head = (rest.u8()?.into(), rest.u16()?, rest.u8()?);
                    rest.take(head_bytes - 4)?;
                    head
                }
            };
            let address = start + rest.taken as u64;
            let content = rest.take(usize::from(size))?.to_vec();
            if kind == CONTINUATION {
                let mut place = Bytes::new(&content);
                let (at, bytes) = (place.u64()?, place.u64()?);
                blocks.push(match is_second {
                    false => (at, bytes),
                    true => {
                        file.summed(at, b"OCHK", bytes.min(MAX_BYTES).saturating_sub(CHECKSUM_BYTES))?;
                        (at + 4, bytes.saturating_sub(4 + CHECKSUM_BYTES))
                    }
                });
            }
            found.push(Message { kind, flags, content, address });
        }
    }
    Ok(found)
}
