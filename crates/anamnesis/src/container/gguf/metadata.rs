//! Reading metadata: key, type tag, value.

use super::caps::{ARRAY_DEPTH, ARRAY_LEN, KEY_BYTES, STRING_BYTES};
use super::{GgufMetadataArray, GgufMetadataValue};
use crate::container::cursor::Cursor;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Minimum bytes of an entry: key length, a key of one byte, type tag and a value of one byte.
pub(super) const ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;

/// Type tags.
pub(super) mod tag {
    pub(in super::super) const U8: u32 = 0;
    pub(in super::super) const I8: u32 = 1;
    pub(in super::super) const U16: u32 = 2;
    pub(in super::super) const I16: u32 = 3;
    pub(in super::super) const U32: u32 = 4;
    pub(in super::super) const I32: u32 = 5;
    pub(in super::super) const F32: u32 = 6;
    pub(in super::super) const BOOL: u32 = 7;
    pub(in super::super) const STRING: u32 = 8;
    pub(in super::super) const ARRAY: u32 = 9;
    pub(in super::super) const U64: u32 = 10;
    pub(in super::super) const I64: u32 = 11;
    pub(in super::super) const F64: u32 = 12;
}

/// The values to keep. Others are validated and charged to the budget all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All values.
    All,
    /// All values except arrays, which are read as empty.
    Scalars,
}

/// Reads `count` entries and refuses duplicate keys.
pub(super) fn read_entries(
    cursor: &mut Cursor<'_>,
    count: usize,
    keep: Keep,
    budget: &mut Budget,
) -> Result<Vec<(String, GgufMetadataValue)>> {
    let mut entries = Cursor::with_reserved(count);
    for _ in 0..count {
        entries.push(read_entry(cursor, keep, budget)?);
    }
    match first_repeated(entries.iter().map(|(key, _): &(String, _)| key.as_str())) {
        None => Ok(entries),
        Some(key) => Err(AnamnesisError::parse(format!("metadata key {} occurs twice", quoted(key)))),
    }
}

/// The first name that occurs more than once.
pub(super) fn first_repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Reads one entry.
fn read_entry(cursor: &mut Cursor<'_>, keep: Keep, budget: &mut Budget) -> Result<(String, GgufMetadataValue)> {
    budget.buffer(size_of::<(String, GgufMetadataValue)>() as u64, "a metadata entry")?;
    let key = cursor.string(KEY_BYTES, budget)?.to_owned();
    if key.is_empty() {
        return Err(AnamnesisError::parse("a metadata key is empty"));
    }
    let value = cursor.u32().and_then(|tag| read_value(cursor, tag, keep, budget));
    match value {
        Ok(value) => Ok((key, value)),
        Err(error) => Err(error.within(format_args!("metadata key {}", quoted(&key)))),
    }
}

/// An array of numbers in the file's byte order.
macro_rules! number {
    ($cursor:expr, $type:ty) => {{
        let bytes = $cursor.array()?;
        if $cursor.big_endian { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) }
    }};
}

macro_rules! numbers {
    ($cursor:expr, $count:expr, $budget:expr, $type:ty) => {{
        let mut numbers = $cursor.numbers($count, $budget, <$type>::from_le_bytes)?;
        if $cursor.big_endian {
            numbers.iter_mut().for_each(|number| *number = <$type>::from_be_bytes(number.to_le_bytes()));
        }
        numbers
    }};
}

fn read_value(cursor: &mut Cursor<'_>, value_tag: u32, keep: Keep, budget: &mut Budget) -> Result<GgufMetadataValue> {
    use GgufMetadataValue as Value;
    Ok(match value_tag {
        tag::U8 => Value::U8(number!(cursor, u8)),
        tag::I8 => Value::I8(number!(cursor, i8)),
        tag::U16 => Value::U16(number!(cursor, u16)),
        tag::I16 => Value::I16(number!(cursor, i16)),
        tag::U32 => Value::U32(number!(cursor, u32)),
        tag::I32 => Value::I32(number!(cursor, i32)),
        tag::F32 => Value::F32(number!(cursor, f32)),
        tag::U64 => Value::U64(number!(cursor, u64)),
        tag::I64 => Value::I64(number!(cursor, i64)),
        tag::F64 => Value::F64(number!(cursor, f64)),
        tag::BOOL => Value::Bool(parse_bool(cursor.u8()?)?),
        tag::STRING => Value::String(cursor.string(STRING_BYTES, budget)?.to_owned()),
        tag::ARRAY => Value::Array(Box::new(read_array(cursor, 1, keep, budget)?)),
        other => return Err(unknown_tag(other)),
    })
}

fn read_array(cursor: &mut Cursor<'_>, depth: u64, keep: Keep, budget: &mut Budget) -> Result<GgufMetadataArray> {
    use GgufMetadataArray as Array;
    ARRAY_DEPTH.check(depth, "levels of arrays")?;
    let item_tag = cursor.u32()?;
    let item_bytes = match item_tag {
        tag::U8 | tag::I8 | tag::BOOL => 1,
        tag::U16 | tag::I16 => 2,
        tag::U32 | tag::I32 | tag::F32 => 4,
        tag::U64 | tag::I64 | tag::F64 => 8,
        // The minimum of a string is its length; that of an array, its type tag and length.
        tag::STRING => 8,
        tag::ARRAY => 12,
        other => return Err(unknown_tag(other)),
    };
    let count = cursor.count(item_bytes, ARRAY_LEN, "items of an array")?;
    if keep == Keep::Scalars && !matches!(item_tag, tag::STRING | tag::ARRAY) {
        let check = |bytes: &[u8]| match item_tag {
            tag::BOOL => bytes.iter().try_for_each(|&byte| parse_bool(byte).map(drop)),
            _ => Ok(()),
        };
        cursor.skip_checked(count as u64 * item_bytes, budget, check)?;
        return Ok(Array::U8(Vec::new()));
    }
    Ok(match item_tag {
        tag::U8 => Array::U8(numbers!(cursor, count, budget, u8)),
        tag::I8 => Array::I8(numbers!(cursor, count, budget, i8)),
        tag::U16 => Array::U16(numbers!(cursor, count, budget, u16)),
        tag::I16 => Array::I16(numbers!(cursor, count, budget, i16)),
        tag::U32 => Array::U32(numbers!(cursor, count, budget, u32)),
        tag::I32 => Array::I32(numbers!(cursor, count, budget, i32)),
        tag::F32 => Array::F32(numbers!(cursor, count, budget, f32)),
        tag::U64 => Array::U64(numbers!(cursor, count, budget, u64)),
        tag::I64 => Array::I64(numbers!(cursor, count, budget, i64)),
        tag::F64 => Array::F64(numbers!(cursor, count, budget, f64)),
        tag::BOOL => {
            let bytes = numbers!(cursor, count, budget, u8);
            Array::Bool(bytes.into_iter().map(parse_bool).collect::<Result<_>>()?)
        }
        tag::STRING => {
            budget.buffer(count as u64 * size_of::<String>() as u64, "an array of strings")?;
            let mut strings = Cursor::with_reserved(if keep == Keep::All { count } else { 0 });
            for _ in 0..count {
                let string = cursor.string(STRING_BYTES, budget)?;
                if keep == Keep::All {
                    strings.push(string.to_owned());
                }
            }
            Array::String(strings)
        }
        _ => {
            budget.buffer(count as u64 * size_of::<GgufMetadataArray>() as u64, "an array of arrays")?;
            let mut arrays = Cursor::with_reserved(if keep == Keep::All { count } else { 0 });
            for _ in 0..count {
                let array = read_array(cursor, depth + 1, keep, budget)?;
                if keep == Keep::All {
                    arrays.push(array);
                }
            }
            Array::Array(arrays)
        }
    })
}

fn parse_bool(byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(AnamnesisError::parse(format!("a bool is the byte {other}, 0 or 1 is allowed"))),
    }
}

fn unknown_tag(tag: u32) -> AnamnesisError {
    AnamnesisError::parse(format!("value type {tag} is unknown, 0 to 12 are allowed"))
}
