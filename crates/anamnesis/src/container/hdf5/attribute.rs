//! Attributes of an object that are texts.
//!
//! | version | head | content |
//! |---|---|---|
//! | 1 | 1, 0, u16 bytes of the name, of the type, of the shape | each padded to eight bytes, then the value |
//! | 2, 3 | version, flags, the same three sizes; in 3 the encoding of the name | without padding |
//!
//! An attribute is a message of its object, or an object of a fractal heap that a message of the object leads to. A text
//! of variable length is in a global heap.

use super::file::{Bytes, File, defined};
use super::header::Message;
use super::heap::{FractalHeap, global};
use super::tree::records;
use crate::error::{AnamnesisError, Result};

const ATTRIBUTE: u16 = 12;
const ATTRIBUTE_INFO: u16 = 21;
/// The type of the B-tree of attributes by name.
const NAME_TREE: u8 = 8;

/// The classes of types that are texts: of fixed and of variable length.
const FIXED_TEXT: u8 = 3;
const VARIABLE: u8 = 9;

/// The text of the attribute with a name, at most so many bytes; `None` if it is missing or not a text.
pub(super) fn text(file: &File<'_, '_>, messages: &[Message], name: &str, most: u64) -> Result<Option<String>> {
    for message in messages {
        match message.kind {
            ATTRIBUTE => {
                if let Some(text) = value(file, &message.content, name, most)? {
                    return Ok(Some(text));
                }
            }
            ATTRIBUTE_INFO => {
                let mut rest = message.bytes();
                let (_version, flags) = (rest.u8()?, rest.u8()?);
                rest.take(if flags & 1 == 0 { 0 } else { 2 })?;
                let (heap, tree) = (rest.u64()?, rest.u64()?);
                let (Some(heap), Some(tree)) = (defined(heap), defined(tree)) else { continue };
                let mut heap = FractalHeap::read(file, heap)?;
                for record in records(file, tree, &[NAME_TREE])? {
                    if let Some(text) = value(file, &heap.object(file, &record)?, name, most)? {
                        return Ok(Some(text));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The text of an attribute, if it has the name and is a text.
fn value(file: &File<'_, '_>, content: &[u8], wanted: &str, most: u64) -> Result<Option<String>> {
    let mut rest = Bytes::new(content);
    let (version, _flags) = (rest.u8()?, rest.u8()?);
    let sizes = [rest.u16()?, rest.u16()?, rest.u16()?].map(usize::from);
    let padded = |bytes: usize| if version == 1 { bytes.next_multiple_of(8) } else { bytes };
    if version == 3 {
        rest.u8()?;
    }
    let name = rest.text(padded(sizes[0]))?;
    let mut of_type = Bytes::new(rest.take(padded(sizes[1]))?);
    rest.take(padded(sizes[2]))?;
    if name != wanted {
        return Ok(None);
    }
    let class = of_type.u8()? & 15;
    of_type.take(3)?;
    let bytes = of_type.u32()? as usize;
    match class {
        FIXED_TEXT if bytes as u64 <= most => rest.text(bytes).map(Some),
        FIXED_TEXT => Err(AnamnesisError::parse(format!("an attribute has {bytes} bytes, {most} are allowed"))),
        VARIABLE => {
            let (length, heap, index) = (rest.u32()? as usize, rest.u64()?, rest.u32()?);
            let object = global(file, heap, index, most)?;
            let text = object.get(..length).unwrap_or(&object);
            Bytes::new(text).text(text.len()).map(Some)
        }
        _ => Ok(None),
    }
}
