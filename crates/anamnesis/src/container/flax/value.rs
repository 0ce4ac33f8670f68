//! The heads of MessagePack values: a type, and a length or a number.

use crate::container::cursor::Cursor;
use crate::error::{AnamnesisError, Result};

/// The head of a value. Lengths are checked against the rest of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Nil,
    Bool,
    Integer(i128),
    Float,
    /// So many bytes of text follow.
    Text(u64),
    Bytes(u64),
    /// So many values follow.
    Array(u64),
    /// So many pairs of values follow.
    Map(u64),
    /// So many bytes of an extension of this type follow.
    Extension(i8, u64),
}

/// Whether bytes begin a map whose first key is printable text.
pub(super) fn begins_map(head: &[u8]) -> bool {
    let rest = match head {
        [0x81..=0x8f, rest @ ..] | [0xde, _, _, rest @ ..] | [0xdf, _, _, _, _, rest @ ..] => rest,
        _ => return false,
    };
    let key = match rest {
        [length @ 0xa1..=0xbf, rest @ ..] => rest.get(..usize::from(length & 0x1f)),
        [0xd9, length @ 1..=0xff, rest @ ..] => rest.get(..usize::from(*length)),
        _ => None,
    };
    let is_printable = |text: &str| text.chars().all(|character| !character.is_control());
    key.and_then(|key| str::from_utf8(key).ok()).is_some_and(is_printable)
}

impl Head {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.position();
        let first = cursor.u8()?;
        let head = match first {
            0x00..=0x7f => Self::Integer(first.into()),
            0x80..=0x8f => Self::Map(u64::from(first & 0xf)),
            0x90..=0x9f => Self::Array(u64::from(first & 0xf)),
            0xa0..=0xbf => Self::Text(u64::from(first & 0x1f)),
            0xc0 => Self::Nil,
            0xc1 => return Err(AnamnesisError::parse(format!("byte {at} is of no MessagePack type"))),
            0xc2 | 0xc3 => Self::Bool,
            0xc4 => Self::Bytes(cursor.u8()?.into()),
            0xc5 => Self::Bytes(u16::from_be_bytes(cursor.array()?).into()),
            0xc6 => Self::Bytes(u32::from_be_bytes(cursor.array()?).into()),
            0xc7 => Self::extension(cursor.u8()?.into(), cursor)?,
            0xc8 => Self::extension(u16::from_be_bytes(cursor.array()?).into(), cursor)?,
            0xc9 => Self::extension(u32::from_be_bytes(cursor.array()?).into(), cursor)?,
            0xca => {
                cursor.take(4)?;
                Self::Float
            }
            0xcb => {
                cursor.take(8)?;
                Self::Float
            }
            0xcc => Self::Integer(cursor.u8()?.into()),
            0xcd => Self::Integer(u16::from_be_bytes(cursor.array()?).into()),
            0xce => Self::Integer(u32::from_be_bytes(cursor.array()?).into()),
            0xcf => Self::Integer(u64::from_be_bytes(cursor.array()?).into()),
            0xd0 => Self::Integer(i8::from_be_bytes(cursor.array()?).into()),
            0xd1 => Self::Integer(i16::from_be_bytes(cursor.array()?).into()),
            0xd2 => Self::Integer(i32::from_be_bytes(cursor.array()?).into()),
            0xd3 => Self::Integer(i64::from_be_bytes(cursor.array()?).into()),
            0xd4..=0xd8 => Self::extension(1 << (first - 0xd4), cursor)?,
            0xd9 => Self::Text(cursor.u8()?.into()),
            0xda => Self::Text(u16::from_be_bytes(cursor.array()?).into()),
            0xdb => Self::Text(u32::from_be_bytes(cursor.array()?).into()),
            0xdc => Self::Array(u16::from_be_bytes(cursor.array()?).into()),
            0xdd => Self::Array(u32::from_be_bytes(cursor.array()?).into()),
            0xde => Self::Map(u16::from_be_bytes(cursor.array()?).into()),
            0xdf => Self::Map(u32::from_be_bytes(cursor.array()?).into()),
            0xe0..=0xff => Self::Integer(i8::from_be_bytes([first]).into()),
        };
        // A value takes at least a byte.
        let least = match head {
            Self::Text(bytes) | Self::Bytes(bytes) | Self::Extension(_, bytes) | Self::Array(bytes) => bytes,
            Self::Map(pairs) => pairs * 2,
            Self::Nil | Self::Bool | Self::Integer(_) | Self::Float => 0,
        };
        cursor.check_remaining(least)?;
        Ok(head)
    }

    fn extension(bytes: u64, cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self::Extension(i8::from_be_bytes(cursor.array()?), bytes))
    }
}
