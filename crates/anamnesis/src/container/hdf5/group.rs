//! The links of a group: in a symbol table, in messages, or in a fractal heap.

use super::file::{Bytes, File, defined};
use super::header::Message;
use super::heap::{FractalHeap, LocalHeap};
use super::tree::{leaves, records};
use crate::error::{AnamnesisError, Result};

const LINK_INFO: u16 = 2;
const LINK: u16 = 6;
const SYMBOL_TABLE: u16 = 17;
/// Bytes of an entry of a symbol table.
const SYMBOL_BYTES: usize = 40;
/// The cache type of a soft link.
const SOFT: u32 = 2;
/// The types of B-trees: of groups, and of links by name.
const GROUP_TREE: u8 = 0;
const LINK_TREE: u8 = 5;

/// A hard link: a name, and the address of an object header.
pub(super) type Link = (String, u64);

/// Whether these are the messages of a group.
pub(super) fn is_group(messages: &[Message]) -> bool {
    messages.iter().any(|message| matches!(message.kind, LINK_INFO | LINK | SYMBOL_TABLE))
}

/// The hard links of a group.
pub(super) fn links(file: &File<'_, '_>, messages: &[Message]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in messages {
        let mut rest = message.bytes();
        match message.kind {
            SYMBOL_TABLE => {
                let (tree, heap) = (rest.u64()?, rest.u64()?);
                symbols(file, tree, heap, &mut links)?;
            }
            LINK => links.extend(link(&message.content)?),
            LINK_INFO => {
                let _version = rest.u8()?;
                let flags = rest.u8()?;
                rest.take(if flags & 1 == 0 { 0 } else { 8 })?;
                let (heap, tree) = (rest.u64()?, rest.u64()?);
                let (Some(heap), Some(tree)) = (defined(heap), defined(tree)) else { continue };
                let mut heap = FractalHeap::read(file, heap)?;
                for record in records(file, tree, &[LINK_TREE])? {
                    // A hash of the name, then the id.
                    let id = record.get(4..).unwrap_or_default();
                    links.extend(link(&heap.object(file, id)?)?);
                }
            }
            _ => {}
        }
    }
    Ok(links)
}

/// The links of a symbol table.
fn symbols(file: &File<'_, '_>, tree: u64, heap: u64, links: &mut Vec<Link>) -> Result<()> {
    let heap = LocalHeap::read(file, heap)?;
    // A key is the offset of a name.
    for (_, node) in leaves(file, tree, GROUP_TREE, 8)? {
        let head = file.signed(node, b"SNOD", 8)?;
        let count = Bytes::new(&head[6..]).u16()?;
        let entries = file.read(node + 8, u64::from(count) * SYMBOL_BYTES as u64)?;
        for entry in entries.chunks_exact(SYMBOL_BYTES) {
            let mut rest = Bytes::new(entry);
            let (name, header, cache) = (rest.u64()?, rest.u64()?, rest.u32()?);
            if cache != SOFT {
                links.push((heap.name(file, name)?, header));
            }
        }
    }
    Ok(())
}

/// The hard link of a message; `None` for a soft one.
fn link(content: &[u8]) -> Result<Option<Link>> {
    let mut rest = Bytes::new(content);
    let (version, flags) = (rest.u8()?, rest.u8()?);
    if version != 1 {
        return Err(AnamnesisError::unsupported(super::NAME, format!("links of version {version}")));
    }
    let kind = if flags & 8 == 0 { 0 } else { rest.u8()? };
    rest.take(if flags & 4 == 0 { 0 } else { 8 })?;
    rest.take(if flags & 16 == 0 { 0 } else { 1 })?;
    let length = rest.number(1 << (flags & 3))?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let name = rest.text(length)?;
    match kind {
        0 => Ok(Some((name, rest.u64()?))),
        1 => Ok(None),
        _ => Err(AnamnesisError::unsupported(super::NAME, format!("the link {name:?} leads to another file"))),
    }
}
