//! The places of a dataset's chunks, under every kind of index.
//!
//! | index | structures |
//! |---|---|
//! | B-tree, version 1 | keys: u32 stored bytes, u32 filter mask, u64 first elements |
//! | single chunk, implicit | none: the chunks are at one address |
//! | fixed array | `FAHD`, `FADB`, in pages if it is long |
//! | extensible array | `EAHD`, `EAIB`, `EASB`, `EADB`: blocks whose sizes grow |
//! | B-tree, version 2 | records: address, stored bytes and mask if there are filters, u64 numbers of the chunk |

use super::file::{Bytes, CHECKSUM_BYTES, File, defined};
use super::tree::{leaves, records};
use crate::error::{AnamnesisError, Result};

/// Maximum chunks of one dataset.
const MAX_CHUNKS: u64 = 1 << 18;
/// Bytes in front of the elements of a block of an array.
const HEAD_BYTES: u64 = 14;
const CHUNK_TREE: u8 = 1;
/// The types of version 2 trees of chunks, without and with filters.
const CHUNK_TREES: [u8; 2] = [10, 11];

/// A chunk: the numbers of its place in the grid, its address, its stored bytes and its filter mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) place: Vec<u64>,
    pub(super) address: u64,
    /// `None` if the chunk is stored as it is.
    pub(super) stored_bytes: Option<u64>,
    pub(super) mask: u32,
}

/// The grid of a dataset's chunks.
pub(super) struct Grid {
    pub(super) shape: Vec<u64>,
    /// `u64::MAX` if a dimension is unlimited.
    pub(super) max_shape: Vec<u64>,
    pub(super) chunk: Vec<u64>,
    pub(super) element_bytes: u64,
    pub(super) has_filters: bool,
}

/// The kind of an index, with its address and settings.
pub(super) enum Index {
    Tree,
    Single { stored_bytes: Option<u64>, mask: u32 },
    Implicit,
    FixedArray,
    ExtensibleArray,
    SecondTree,
}

impl Grid {
    pub(super) fn chunk_bytes(&self) -> Option<u64> {
        self.chunk.iter().try_fold(self.element_bytes, |bytes, &size| bytes.checked_mul(size))
    }

    /// The chunks along each dimension of a shape.
    fn counts(&self, shape: &[u64]) -> Vec<u64> {
        shape.iter().zip(&self.chunk).map(|(size, chunk)| size.div_ceil((*chunk).max(1))).collect()
    }

    /// The number of chunks of the dataset; too many are refused.
    fn count(&self) -> Result<u64> {
        let count = self.counts(&self.shape).iter().try_fold(1u64, |all, count| all.checked_mul(*count));
        match count.filter(|count| *count <= MAX_CHUNKS) {
            Some(count) => Ok(count),
            None => Err(AnamnesisError::limit("MAX_CHUNKS", format!("more than {MAX_CHUNKS} chunks"))),
        }
    }

    /// The chunks of a dataset, those that are stored.
    pub(super) fn chunks(&self, file: &File<'_, '_>, index: &Index, address: u64) -> Result<Vec<Chunk>> {
        let count = self.count()?;
        let Some(address) = defined(address).filter(|_| count > 0) else { return Ok(Vec::new()) };
        let found = match *index {
            Index::Tree => self.chunks_of_tree(file, address)?,
            Index::Single { stored_bytes, mask } => {
                vec![Chunk { place: vec![0; self.chunk.len()], address, stored_bytes, mask }]
            }
            Index::Implicit => {
                let bytes = self.chunk_bytes().unwrap_or(u64::MAX);
                let chunk = |number: u64| {
                    let address = number.checked_mul(bytes).and_then(|offset| address.checked_add(offset));
                    let address = address.ok_or_else(|| AnamnesisError::parse("a chunk is past 2^64 bytes"))?;
                    Ok(Chunk { place: self.place(number, None), address, stored_bytes: None, mask: 0 })
                };
                (0..count).map(chunk).collect::<Result<_>>()?
            }
            Index::FixedArray => self.placed(&fixed_array(file, address)?, None)?,
            Index::ExtensibleArray => {
                let unlimited = self.max_shape.iter().position(|size| *size == u64::MAX);
                self.placed(&extensible_array(file, address)?, unlimited)?
            }
            Index::SecondTree => self.chunks_of_records(&records(file, address, &CHUNK_TREES)?)?,
        };
        let mut places: Vec<&[u64]> = found.iter().map(|chunk| &chunk.place[..]).collect();
        places.sort_unstable();
        match places.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(AnamnesisError::parse("a chunk is stored twice")),
            false => Ok(found),
        }
    }

    fn chunks_of_tree(&self, file: &File<'_, '_>, address: u64) -> Result<Vec<Chunk>> {
        let rank = self.chunk.len();
        let mut found = Vec::new();
        for (key, address) in leaves(file, address, CHUNK_TREE, 8 + 8 * (rank + 1))? {
            let mut rest = Bytes::new(&key);
            let (bytes, mask) = (u64::from(rest.u32()?), rest.u32()?);
            let mut place = Vec::with_capacity(rank);
            for chunk in &self.chunk {
                let first = rest.u64()?;
                if !first.is_multiple_of((*chunk).max(1)) {
                    return Err(AnamnesisError::parse(format!("a chunk starts at {first}, inside of another")));
                }
                place.push(first / (*chunk).max(1));
            }
            found.push(Chunk { place, address, stored_bytes: self.has_filters.then_some(bytes), mask });
        }
        Ok(found)
    }

    fn chunks_of_records(&self, records: &[Vec<u8>]) -> Result<Vec<Chunk>> {
        let rank = self.chunk.len();
        let chunk = |record: &Vec<u8>| {
            let mut rest = Bytes::new(record);
            let address = rest.u64()?;
            let (stored_bytes, mask) = match self.has_filters {
                true => {
                    let fault = || AnamnesisError::parse("a record of a chunk is too short");
                    let width = rest.remaining().checked_sub(4 + 8 * rank).ok_or_else(fault)?;
                    (Some(rest.number(width)?), rest.u32()?)
                }
                false => (None, 0),
            };
            let place = (0..rank).map(|_| rest.u64()).collect::<Result<_>>()?;
            Ok(Chunk { place, address, stored_bytes, mask })
        };
        records.iter().map(chunk).collect()
    }

    /// The chunks of an array, whose elements are in the order of their places.
    fn placed(&self, elements: &[Vec<u8>], unlimited: Option<usize>) -> Result<Vec<Chunk>> {
        let mut found = Vec::new();
        for (number, element) in (0..).zip(elements) {
            let mut rest = Bytes::new(element);
            let Some(address) = defined(rest.u64()?) else { continue };
            let (stored_bytes, mask) = match self.has_filters {
                true => {
                    let fault = || AnamnesisError::parse("an element of an array of chunks is too short");
                    let width = rest.remaining().checked_sub(4).ok_or_else(fault)?;
                    (Some(rest.number(width)?), rest.u32()?)
                }
                false => (None, 0),
            };
            found.push(Chunk { place: self.place(number, unlimited), address, stored_bytes, mask });
        }
        Ok(found)
    }

    /// The place of a chunk by its number; the dimension that is unlimited comes first.
    fn place(&self, number: u64, unlimited: Option<usize>) -> Vec<u64> {
        let limits = self.shape.iter().zip(&self.max_shape);
        let limits: Vec<u64> = limits.map(|(size, max)| if *max == u64::MAX { *size } else { *max }).collect();
        let counts = self.counts(&limits);
        let (mut place, mut rest) = (vec![0; counts.len()], number);
        let others = (0..counts.len()).rev().filter(|axis| Some(*axis) != unlimited);
        for axis in others.chain(unlimited) {
            let is_first = unlimited.map_or(axis == 0, |first| axis == first);
            let count = counts[axis].max(1);
            (place[axis], rest) = if is_first { (rest, 0) } else { (rest % count, rest / count) };
        }
        place
    }
}

/// Consecutive elements, so many bytes each.
fn elements(block: &[u8], bytes: u64) -> impl Iterator<Item = Vec<u8>> {
    block.chunks_exact(bytes as usize).map(<[u8]>::to_vec)
}

/// Bytes of an element: an address, and a size and a mask if there are filters.
fn check_element(bytes: u64) -> Result<u64> {
    match (8..=20).contains(&bytes) {
        true => Ok(bytes),
        false => Err(AnamnesisError::parse(format!("an array of chunks has elements of {bytes} bytes"))),
    }
}

fn check_count(count: u64) -> Result<u64> {
    match count <= MAX_CHUNKS {
        true => Ok(count),
        false => Err(AnamnesisError::limit("MAX_CHUNKS", format!("an array of {count} chunks"))),
    }
}

fn fixed_array(file: &File<'_, '_>, address: u64) -> Result<Vec<Vec<u8>>> {
    let head = file.summed(address, b"FAHD", 24)?;
    let mut rest = Bytes::new(&head[6..]);
    let (bytes, page_bits) = (check_element(rest.u8()?.into())?, rest.u8()?);
    let (count, block) = (check_count(rest.u64()?)?, rest.u64()?);
    let Some(block) = defined(block) else { return Ok(Vec::new()) };
    let page = 1u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX);
    if count <= page {
        let block = file.summed(block, b"FADB", HEAD_BYTES + count * bytes)?;
        return Ok(elements(&block[HEAD_BYTES as usize..], bytes).collect());
    }
    // A bit for each page that was written.
    let mask_bytes = count.div_ceil(page).div_ceil(8);
    let written = file.summed(block, b"FADB", HEAD_BYTES + mask_bytes)?.split_off(HEAD_BYTES as usize);
    elements_of_pages(file, block + HEAD_BYTES + mask_bytes + CHECKSUM_BYTES, count, bytes, page, &written)
}

/// The elements of pages, which have a checksum each; `written` has a bit for each page, the highest first.
fn elements_of_pages(
    file: &File<'_, '_>,
    address: u64,
    count: u64,
    bytes: u64,
    page: u64,
    written: &[u8],
) -> Result<Vec<Vec<u8>>> {
    let (mut found, mut at) = (Vec::new(), address);
    for number in 0..count.div_ceil(page) {
        let now = page.min(count - number * page);
        match written.get((number / 8) as usize).is_some_and(|bits| bits >> (7 - number % 8) & 1 == 1) {
            true => {
                let block = file.checked(file.read(at, now * bytes + CHECKSUM_BYTES)?, at)?;
                found.extend(elements(&block, bytes));
            }
            false => found.extend((0..now).map(|_| vec![0xff; bytes as usize])),
        }
        at += page * bytes + CHECKSUM_BYTES;
    }
    Ok(found)
}

fn extensible_array(file: &File<'_, '_>, address: u64) -> Result<Vec<Vec<u8>>> {
    let head = file.summed(address, b"EAHD", 68)?;
    let mut rest = Bytes::new(&head[6..]);
    let bytes = check_element(rest.u8()?.into())?;
    let (max_bits, in_index) = (u64::from(rest.u8()?), u64::from(rest.u8()?));
    let (least, least_blocks, page_bits) = (u64::from(rest.u8()?), u64::from(rest.u8()?), rest.u8()?);
    rest.take(32)?;
    let (count, _realised, index) = (check_count(rest.u64()?)?, rest.u64()?, rest.u64()?);
    let is_possible = least.is_power_of_two() && least_blocks.is_power_of_two() && (1..=64).contains(&max_bits);
    if !is_possible || least_blocks < 2 || page_bits > 32 {
        return Err(AnamnesisError::parse("an extensible array has an impossible shape"));
    }
    let Some(index) = defined(index).filter(|_| count > 0) else { return Ok(Vec::new()) };
    let page = 1u64 << page_bits;
    let offset_bytes = max_bits.div_ceil(8);
    // The first data blocks are listed in the index, the others in secondary blocks.
    let direct_blocks = 2 * (least_blocks - 1);
    let direct_groups = 2 * u64::from(least_blocks.ilog2());
    let groups = (1 + max_bits).saturating_sub(u64::from(least.ilog2()));
    let lists = 8 * (direct_blocks + groups.saturating_sub(direct_groups));
    let block = file.summed(index, b"EAIB", HEAD_BYTES + in_index * bytes + lists)?;
    let mut found: Vec<Vec<u8>> =
        elements(&block[HEAD_BYTES as usize..], bytes).take(in_index.min(count) as usize).collect();
    let list = index + HEAD_BYTES + in_index * bytes;
    let holes = |count: u64| (0..count).map(|_| vec![0xff; bytes as usize]);
    let data_block = |address: u64, count: u64, written: &[u8], found: &mut Vec<Vec<u8>>| {
        let Some(address) = defined(address) else {
            found.extend(holes(count));
            return Ok(());
        };
        let start = HEAD_BYTES + offset_bytes;
        if count <= page {
            let block = file.summed(address, b"EADB", start + count * bytes)?;
            found.extend(elements(&block[start as usize..], bytes));
            return Ok(());
        }
        file.summed(address, b"EADB", start)?;
        let pages = address.saturating_add(start + CHECKSUM_BYTES);
        found.extend(elements_of_pages(file, pages, count, bytes, page, written)?);
        Ok::<_, AnamnesisError>(())
    };
    let (mut group, mut listed) = (0u32, 0);
    while (found.len() as u64) < count {
        if group > 128 {
            return Err(AnamnesisError::parse("an extensible array has too many blocks"));
        }
        let (blocks, each) = (1u64 << (group / 2).min(40), check_count((1u64 << group.div_ceil(2).min(40)) * least)?);
        let mask_bytes = if each > page { (each / page).div_ceil(8) } else { 0 };
        let (list, first, masks) = match u64::from(group) < direct_groups {
            true => (list, listed, None),
            false => {
                let number = u64::from(group) - direct_groups;
                let secondary = u64::from_le_bytes(file.array(list + direct_blocks * 8 + number * 8)?);
                let Some(secondary) = defined(secondary) else {
                    found.extend(holes((blocks * each).min(count - found.len() as u64)));
                    group += 1;
                    continue;
                };
                let masks = secondary.saturating_add(HEAD_BYTES + offset_bytes);
                file.summed(secondary, b"EASB", HEAD_BYTES + offset_bytes + blocks * (mask_bytes + 8))?;
                (masks + blocks * mask_bytes, 0, Some(masks))
            }
        };
        for block in 0..blocks {
            if found.len() as u64 >= count {
                break;
            }
            let address = u64::from_le_bytes(file.array(list + (first + block) * 8)?);
            let written = match masks {
                Some(masks) => file.read(masks + block * mask_bytes, mask_bytes)?,
                None => vec![0xff; mask_bytes as usize],
            };
            data_block(address, each, &written, &mut found)?;
        }
        listed += blocks;
        group += 1;
    }
    found.truncate(count as usize);
    Ok(found)
}
