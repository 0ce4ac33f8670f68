//! Heaps: local ones with the names of symbol tables, global ones with text of variable length, and fractal ones with
//! links.

use std::collections::HashSet;

use super::file::{Bytes, CHECKSUM_BYTES, File, defined};
use super::lookup3::lookup3;
use crate::container::checked::is_same;
use crate::error::{AnamnesisError, Result};

/// Maximum bytes of a name or a link.
const MAX_OBJECT_BYTES: u64 = 1 << 16;
/// Maximum bytes of a direct block of a fractal heap.
const MAX_BLOCK_BYTES: u64 = 16 << 20;
/// Bytes that are read at a time to find the end of a name.
const NAME_PIECE: u64 = 64;

/// The data of a local heap.
pub(super) struct LocalHeap {
    start: u64,
    bytes: u64,
}

impl LocalHeap {
    pub(super) fn read(file: &File<'_, '_>, address: u64) -> Result<Self> {
        let head = file.signed(address, b"HEAP", 32)?;
        let mut rest = Bytes::new(&head[8..]);
        let (bytes, _free, start) = (rest.u64()?, rest.u64()?, rest.u64()?);
        file.offset(start, bytes)?;
        Ok(Self { start, bytes })
    }

    /// The name at an offset.
    pub(super) fn name(&self, file: &File<'_, '_>, offset: u64) -> Result<String> {
        let mut name = Vec::new();
        loop {
            let at = offset.saturating_add(name.len() as u64);
            let piece = NAME_PIECE.min(self.bytes.saturating_sub(at));
            if piece == 0 || name.len() as u64 > MAX_OBJECT_BYTES {
                return Err(AnamnesisError::parse("a name does not end"));
            }
            let bytes = file.read(self.start + at, piece)?;
            match bytes.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    name.extend(&bytes[..end]);
                    break;
                }
                None => name.extend(bytes),
            }
        }
        String::from_utf8(name).map_err(|_| AnamnesisError::parse("a name is not UTF-8"))
    }
}

/// The bytes of an object in a global heap collection, at most so many.
pub(super) fn global(file: &File<'_, '_>, address: u64, index: u32, most: u64) -> Result<Vec<u8>> {
    let head = file.signed(address, b"GCOL", 16)?;
    let bytes = Bytes::new(&head[8..]).u64()?;
    file.offset(address, bytes)?;
    let mut at = 16u64;
    while at + 16 <= bytes {
        let head = file.read(address + at, 16)?;
        let mut rest = Bytes::new(&head);
        let (number, _references, _reserved, size) = (rest.u16()?, rest.u16()?, rest.u32()?, rest.u64()?);
        if u32::from(number) == index {
            return match size <= most && (at + 16).saturating_add(size) <= bytes {
                true => file.read(address + at + 16, size),
                false => Err(AnamnesisError::parse("an object of a global heap is too long")),
            };
        }
        if number == 0 {
            break;
        }
        at = at.saturating_add(16).saturating_add(size.checked_next_multiple_of(8).unwrap_or(u64::MAX));
    }
    Err(AnamnesisError::parse(format!("a global heap has no object {index}")))
}

/// A fractal heap: blocks whose sizes double from row to row.
pub(super) struct FractalHeap {
    /// Bytes of offsets and of lengths in the ids of objects.
    offset_bytes: usize,
    length_bytes: usize,
    width: u64,
    first_block: u64,
    /// Rows of direct blocks.
    direct_rows: u64,
    root: u64,
    /// Rows of the root, if it is an indirect block.
    root_rows: u64,
    /// Whether direct blocks have checksums, and the addresses of those whose checksum is verified.
    has_checksums: bool,
    verified: HashSet<u64>,
}

impl FractalHeap {
    pub(super) fn read(file: &File<'_, '_>, address: u64) -> Result<Self> {
        let head = file.signed(address, b"FRHP", 142)?;
        let filters = Bytes::new(&head[7..]).u16()?;
        if filters > 0 {
            return Err(AnamnesisError::unsupported(super::NAME, "links in a heap with filters"));
        }
        let head = file.summed(address, b"FRHP", 142)?;
        let mut rest = Bytes::new(&head[9..]);
        let has_checksums = rest.u8()? & 2 != 0;
        let most = u64::from(rest.u32()?);
        rest.take(96)?;
        let (width, first_block, most_direct) = (u64::from(rest.u16()?), rest.u64()?, rest.u64()?);
        let (bits, _start_rows, root, rows) = (rest.u16()?, rest.u16()?, rest.u64()?, u64::from(rest.u16()?));
        let is_possible = width > 0 && first_block.is_power_of_two() && most_direct.is_power_of_two();
        if !is_possible || bits > 64 || most_direct < first_block || rows > 64 {
            return Err(AnamnesisError::parse("a fractal heap has an impossible shape"));
        }
        let length_bytes = most.min(most_direct).max(1).ilog2() / 8 + 1;
        Ok(Self {
            offset_bytes: usize::from(bits).div_ceil(8),
            length_bytes: length_bytes as usize,
            width,
            first_block,
            direct_rows: u64::from(most_direct.ilog2() - first_block.ilog2()) + 2,
            root,
            root_rows: rows,
            has_checksums,
            verified: HashSet::new(),
        })
    }

    /// The object of an id.
    pub(super) fn object(&mut self, file: &File<'_, '_>, id: &[u8]) -> Result<Vec<u8>> {
        let mut rest = Bytes::new(id);
        let first = rest.u8()?;
        match first >> 4 & 3 {
            0 => {}
            2 => return Ok(rest.take(usize::from(first & 15) + 1)?.to_vec()),
            _ => return Err(AnamnesisError::unsupported(super::NAME, "a huge object of a fractal heap")),
        }
        let (offset, length) = (rest.number(self.offset_bytes)?, rest.number(self.length_bytes)?);
        if length > MAX_OBJECT_BYTES {
            return Err(AnamnesisError::parse(format!("an object of a fractal heap has {length} bytes")));
        }
        let (block, inside) = self.block(file, offset)?;
        file.read(block.saturating_add(inside), length)
    }

    /// The size of the blocks of a row.
    fn row_block(&self, row: u64) -> Option<u64> {
        let doublings = u32::try_from(row.saturating_sub(1)).ok()?;
        1u64.checked_shl(doublings)?.checked_mul(self.first_block)
    }

    /// The direct block that has an offset of the heap, and the offset in it.
    fn block(&mut self, file: &File<'_, '_>, offset: u64) -> Result<(u64, u64)> {
        let fault = || AnamnesisError::parse(format!("a fractal heap has no offset {offset}"));
        let (mut address, mut rows, mut inside, mut block_bytes) =
            (self.root, self.root_rows, offset, self.first_block);
        while rows > 0 {
            let mut row = 0;
            let size = loop {
                let size = self.row_block(row).filter(|_| row < rows).ok_or_else(fault)?;
                let all = size.checked_mul(self.width).ok_or_else(fault)?;
                if inside < all {
                    break size;
                }
                inside -= all;
                row += 1;
            };
            // Direct and indirect blocks are listed alike: their addresses, row by row.
            let entry = row * self.width + inside / size;
            let list = address.checked_add(4 + 1 + 8 + self.offset_bytes as u64).ok_or_else(fault)?;
            let lists = rows.checked_mul(self.width * 8).ok_or_else(fault)?;
            file.summed(address, b"FHIB", (list - address).saturating_add(lists))?;
            address = u64::from_le_bytes(file.array(list + entry * 8)?);
            address = defined(address).ok_or_else(fault)?;
            inside %= size;
            block_bytes = size;
            rows = match row < self.direct_rows {
                true => 0,
                false => {
                    let below = (size / self.first_block / self.width).max(1).ilog2() + 1;
                    // Rows become fewer at every level.
                    u64::from(below).min(rows - 1)
                }
            };
        }
        file.signed(address, b"FHDB", 4)?;
        if self.has_checksums && !self.verified.contains(&address) {
            self.verify(file, address, block_bytes)?;
            self.verified.insert(address);
        }
        Ok((address, inside))
    }

    /// Checks a direct block, whose checksum is in its head and counts as zero.
    fn verify(&self, file: &File<'_, '_>, address: u64, bytes: u64) -> Result<()> {
        let fault =
            || AnamnesisError::parse(format!("the block at address {address} is damaged: its checksum is another"));
        if bytes > MAX_BLOCK_BYTES {
            return Err(AnamnesisError::parse(format!("a fractal heap has a block of {bytes} bytes")));
        }
        let mut block = file.read(address, bytes)?;
        let at = 4 + 1 + 8 + self.offset_bytes;
        let field = block.get_mut(at..at + CHECKSUM_BYTES as usize).ok_or_else(fault)?;
        let written = Bytes::new(field).u32()?;
        field.fill(0);
        if is_same(lookup3(&block), written) { Ok(()) } else { Err(fault()) }
    }
}
