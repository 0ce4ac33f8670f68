//! Tables of LevelDB: sorted keys with values, in blocks that an index block lists.
//!
//! | part | content |
//! |---|---|
//! | block | entries, u32 offsets of restarts, u32 their number; then a type byte (0 plain, 1 Snappy) and a masked CRC-32C |
//! | entry | varints: bytes shared with the key before, further bytes of the key, bytes of the value; then both |
//! | footer | 48 bytes: varint offsets and sizes of the meta-index and of the index, padding, magic |
//!
//! Every checksum is verified. The format is specified in `doc/table_format.md` of LevelDB.

use super::crc32c::{crc32c, masked};
use crate::container::checked::is_same;
use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

pub(super) const MAGIC: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
pub(super) const FOOTER_BYTES: u64 = 48;
/// The type byte and the checksum behind a block.
const TRAILER_BYTES: u64 = 5;
/// Maximum bytes of one block, and of all keys and values together.
const MAX_BLOCK_BYTES: u64 = 64 << 20;
const MAX_TABLE_BYTES: u64 = 64 << 20;

/// An entry of a table.
pub(super) struct Pair {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The place of a block.
struct Handle {
    offset: u64,
    bytes: u64,
}

/// Whether the last bytes of a file are those of a table.
pub(super) fn is_table(pages: &Pages<'_>) -> bool {
    let end = pages.len().checked_sub(MAGIC.len() as u64);
    end.is_some_and(|end| pages.array::<8>(end).is_ok_and(|magic| magic == MAGIC))
}

/// All entries of a table, in order.
pub(super) fn read_table(pages: &Pages<'_>, budget: &mut Budget) -> Result<Vec<Pair>> {
    let footer = pages.len().checked_sub(FOOTER_BYTES).ok_or_else(|| AnamnesisError::parse("it is too short"))?;
    if !is_table(pages) {
        return Err(AnamnesisError::parse("it does not end with the magic of a table"));
    }
    let footer = pages.read(footer..footer + FOOTER_BYTES - MAGIC.len() as u64)?;
    let mut rest = &footer[..];
    let (_meta, index) = (handle(&mut rest)?, handle(&mut rest)?);
    let blocks = entries(&block(pages, &index, budget)?, None)?;
    let (mut found, mut bytes, mut held) = (Vec::new(), 0u64, 0u64);
    for (number, Pair { value, .. }) in blocks.iter().enumerate() {
        let within = |error: AnamnesisError| error.within(format_args!("block {number}"));
        let handle = handle(&mut value.as_slice()).map_err(within)?;
        // Blocks cannot overlap, so their sum is bounded by the file.
        bytes = handle.bytes.saturating_add(bytes);
        if bytes > pages.len() || bytes > MAX_TABLE_BYTES {
            return Err(AnamnesisError::parse(format!("the blocks take {bytes} bytes, the file has {}", pages.len())));
        }
        let last = found.last().map(|pair: &Pair| pair.key.clone());
        let more = entries(&block(pages, &handle, budget)?, last).map_err(within)?;
        held += more.iter().map(|pair| pair.key.len() as u64).sum::<u64>();
        if held > MAX_TABLE_BYTES {
            return Err(AnamnesisError::limit("MAX_TABLE_BYTES", format!("{held} bytes of keys")));
        }
        found.extend(more);
    }
    Ok(found)
}

fn handle(rest: &mut &[u8]) -> Result<Handle> {
    Ok(Handle { offset: varint(rest)?, bytes: varint(rest)? })
}

/// The checked content of a block.
fn block(pages: &Pages<'_>, handle: &Handle, budget: &mut Budget) -> Result<Vec<u8>> {
    let Handle { offset, bytes } = *handle;
    if bytes > MAX_BLOCK_BYTES {
        let why = format!("a block of {bytes} bytes, {MAX_BLOCK_BYTES} are allowed");
        return Err(AnamnesisError::limit("MAX_BLOCK_BYTES", why));
    }
    let end = pages.check(offset, bytes + TRAILER_BYTES)?;
    // Keys share their beginnings, and are held whole.
    budget.buffer(bytes * 2, "a block of the index")?;
    let mut block = pages.read(offset..end)?;
    let [a, b, c, d] = pages.array(end - 4)?;
    block.truncate(bytes as usize + 1);
    if !is_same(masked(crc32c(&block)), u32::from_le_bytes([a, b, c, d])) {
        return Err(AnamnesisError::parse(format!("the block at byte {offset} is damaged: its checksum is another")));
    }
    match block.pop() {
        Some(0) => Ok(block),
        Some(1) => Err(AnamnesisError::unsupported(super::NAME, "the index is compressed by Snappy")),
        other => Err(AnamnesisError::parse(format!("the block at byte {offset} has the unknown type {other:?}"))),
    }
}

/// The entries of a block, whose keys follow `last` in order.
fn entries(block: &[u8], last: Option<Vec<u8>>) -> Result<Vec<Pair>> {
    let fault = |what: &str| AnamnesisError::parse(what);
    let (rest, count) = block.split_last_chunk::<4>().ok_or_else(|| fault("it has no restarts"))?;
    let restarts = (u32::from_le_bytes(*count) as usize).checked_mul(4);
    let end =
        restarts.and_then(|bytes| rest.len().checked_sub(bytes)).ok_or_else(|| fault("its restarts are too many"))?;
    let mut rest = rest.split_at(end).0;
    let (mut found, mut last, mut key_bytes) = (Vec::<Pair>::new(), last, 0);
    while !rest.is_empty() {
        let [shared, unshared, value] = [varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?];
        let before = found.last().map_or(&[][..], |pair| &pair.key);
        let take = |rest: &mut &[u8], bytes: u64| {
            let (taken, others) = usize::try_from(bytes).ok().and_then(|bytes| rest.split_at_checked(bytes))?;
            *rest = others;
            Some(taken.to_vec())
        };
        let shared = usize::try_from(shared).ok().and_then(|shared| before.get(..shared));
        let shared = shared.ok_or_else(|| fault("a key shares more than the key before it has"))?;
        key_bytes += shared.len();
        // A short entry can repeat a long key.
        if key_bytes as u64 > MAX_TABLE_BYTES / 4 {
            return Err(AnamnesisError::limit("MAX_TABLE_BYTES", format!("{key_bytes} bytes of shared keys")));
        }
        let mut key = shared.to_vec();
        key.extend(take(&mut rest, unshared).ok_or_else(|| fault("a key ends past its block"))?);
        let value = take(&mut rest, value).ok_or_else(|| fault("a value ends past its block"))?;
        if last.is_some_and(|last| last >= key) {
            return Err(fault("its keys are not in order"));
        }
        last = Some(key.clone());
        found.push(Pair { key, value });
    }
    Ok(found)
}

/// A number of seven bits a byte, the lowest first.
fn varint(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for place in 0..10 {
        let Some((&byte, others)) = rest.split_first() else { break };
        *rest = others;
        let bits = u64::from(byte & 0x7f);
        if place == 9 && bits > 1 {
            break;
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(AnamnesisError::parse("a number is cut off or longer than 64 bits"))
}
