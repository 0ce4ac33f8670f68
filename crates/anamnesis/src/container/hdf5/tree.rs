//! B-trees: version 1, for symbol tables and chunks, and version 2, for links and chunks.

use super::file::{Bytes, File, defined};
use crate::error::{AnamnesisError, Result};

/// Maximum entries of one tree.
const MAX_ENTRIES: usize = 1 << 18;
const MAX_LEVEL: u8 = 32;

fn too_many() -> AnamnesisError {
    AnamnesisError::limit("MAX_TREE_ENTRIES", format!("a tree has more than {MAX_ENTRIES} entries"))
}

/// The children of the leaves of a version 1 tree, each with the key before it. Keys take `key_bytes`.
pub(super) fn leaves(file: &File<'_, '_>, address: u64, kind: u8, key_bytes: usize) -> Result<Vec<(Vec<u8>, u64)>> {
    let (mut found, mut pending, mut visited) = (Vec::new(), vec![(address, None)], 0);
    while let Some((address, level)) = pending.pop() {
        visited += 1;
        let head = file.signed(address, b"TREE", 24)?;
        let mut rest = Bytes::new(&head[4..]);
        let (found_kind, this_level, count) = (rest.u8()?, rest.u8()?, usize::from(rest.u16()?));
        let is_wrong = level.is_some_and(|level| level != this_level) || this_level > MAX_LEVEL;
        if found_kind != kind || is_wrong {
            return Err(AnamnesisError::parse(format!("the tree node at address {address} is of another tree")));
        }
        let entry_bytes = key_bytes + 8;
        let entries = file.read(address + 24, (count * entry_bytes) as u64)?;
        if found.len() + count > MAX_ENTRIES || visited > MAX_ENTRIES {
            return Err(too_many());
        }
        let mut children = Vec::with_capacity(count);
        for entry in entries.chunks_exact(entry_bytes) {
            let (key, child) = entry.split_at(key_bytes);
            children.push((key.to_vec(), Bytes::new(child).u64()?));
        }
        match this_level.checked_sub(1) {
            None => found.extend(children),
            // In order: the last one pushed is the next.
            Some(below) => pending.extend(children.into_iter().rev().map(|(_, child)| (child, Some(below)))),
        }
    }
    Ok(found)
}

/// The records of a version 2 tree of this type.
pub(super) fn records(file: &File<'_, '_>, address: u64, kinds: &[u8]) -> Result<Vec<Vec<u8>>> {
    let head = file.summed(address, b"BTHD", 34)?;
    let mut rest = Bytes::new(&head[5..]);
    let kind = rest.u8()?;
    let (node_bytes, record_bytes, depth) = (u64::from(rest.u32()?), u64::from(rest.u16()?), rest.u16()?);
    rest.take(2)?;
    let (root, count) = (rest.u64()?, rest.u16()?);
    if !kinds.contains(&kind) || record_bytes == 0 || depth > u16::from(MAX_LEVEL) {
        return Err(AnamnesisError::parse(format!("the tree at address {address} is of another kind ({kind})")));
    }
    let Some(root) = defined(root).filter(|_| count > 0) else { return Ok(Vec::new()) };
    // The sizes of pointers: the numbers of records that a child can have, and all below it.
    let fault = || AnamnesisError::parse("a tree has nodes of an impossible size");
    let width = |most: u64| u64::from((most.max(1).ilog2()) / 8 + 1);
    let most_in_leaf = node_bytes.checked_sub(10).ok_or_else(fault)? / record_bytes;
    // For each level: the bytes of a child's count, and of the count of all records below it.
    let mut widths = vec![(0, 0)];
    let (mut most, mut all) = (most_in_leaf, most_in_leaf);
    for level in 1..=depth {
        let (count_bytes, all_bytes) = (width(most), if level > 1 { width(all) } else { 0 });
        widths.push((count_bytes, all_bytes));
        let pointer = 8 + count_bytes + all_bytes;
        most = node_bytes.checked_sub(10 + pointer).ok_or_else(fault)? / (record_bytes + pointer);
        all = most.saturating_add(1).saturating_mul(all).saturating_add(most);
    }
    let (mut found, mut pending, mut visited) = (Vec::new(), vec![(root, u64::from(count), depth)], 0);
    while let Some((address, count, level)) = pending.pop() {
        visited += 1;
        if count > node_bytes {
            return Err(AnamnesisError::parse(format!("a tree node of {node_bytes} bytes has {count} records")));
        }
        let signature = if level == 0 { b"BTLF" } else { b"BTIN" };
        let (count_bytes, all_bytes) = widths.get(usize::from(level)).copied().unwrap_or_default();
        let pointers = if level == 0 { 0 } else { (count + 1) * (8 + count_bytes + all_bytes) };
        let node = file.summed(address, signature, 6 + count * record_bytes + pointers)?;
        let mut rest = Bytes::new(&node[6..]);
        for _ in 0..count {
            found.push(rest.take(record_bytes as usize)?.to_vec());
        }
        if found.len() > MAX_ENTRIES || visited > MAX_ENTRIES {
            return Err(too_many());
        }
        if level > 0 {
            for _ in 0..=count {
                let (child, below) = (rest.u64()?, rest.number(count_bytes as usize)?);
                rest.take(all_bytes as usize)?;
                pending.push((child, below, level - 1));
            }
        }
    }
    Ok(found)
}
