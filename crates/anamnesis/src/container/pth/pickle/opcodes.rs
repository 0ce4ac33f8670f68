//! The instructions of a pickle and their arguments, without their meaning.
//!
//! | protocol | adds |
//! |---|---|
//! | 0 | text arguments terminated by a newline |
//! | 1 | binary arguments of fixed size, or with a length of one or four bytes |
//! | 2 | `PROTO`, `NEWOBJ`, long integers, short tuples, extension codes |
//! | 3 | bytes |
//! | 4 | frames, lengths of eight bytes, globals named on the stack, sets, `MEMOIZE` |
//! | 5 | byte arrays and out-of-band buffers |
//!
//! The format is specified in `Lib/pickletools.py` of CPython.

use super::caps::MAX_PICKLE_PAYLOAD;
use crate::error::{AnamnesisError, Result};

/// An instruction with its argument, borrowed from the pickle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op<'a> {
    Proto(u8),
    Frame(u64),
    Stop,
    Mark,
    Pop,
    PopMark,
    Dup,
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than eight bytes, little-endian.
    LongBytes(&'a [u8]),
    /// A decimal integer that does not fit into 64 bits.
    LongText(&'a [u8]),
    Float(f64),
    Text(&'a [u8]),
    /// Text with `\uXXXX` escapes.
    EscapedText(&'a [u8]),
    /// A Python 2 string.
    String(&'a [u8]),
    /// A Python 2 string literal, with quotes and escapes.
    QuotedString(&'a [u8]),
    Bytes(&'a [u8]),
    ByteArray(&'a [u8]),
    NextBuffer,
    ReadonlyBuffer,
    /// A tuple of the topmost values.
    TupleOf(usize),
    /// A tuple of all values above the mark.
    Tuple,
    EmptyList,
    List,
    Append,
    Appends,
    EmptyDict,
    Dict,
    SetItem,
    SetItems,
    EmptySet,
    AddItems,
    FrozenSet,
    Get(u64),
    Put(u64),
    Memoize,
    Global(&'a [u8], &'a [u8]),
    StackGlobal,
    Inst(&'a [u8], &'a [u8]),
    Obj,
    NewObj,
    NewObjEx,
    Reduce,
    Build,
    /// A code of the extension registry.
    Ext(u32),
    PersId(&'a [u8]),
    BinPersId,
}

/// Reads instructions sequentially.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    ran_out: bool,
    wanted: Option<u64>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, ran_out: false, wanted: None }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Bytes left to read.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Whether the last error was an incomplete pickle.
    pub(crate) fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// The end of the argument that the last instruction lacked or that is larger than allowed.
    pub(crate) fn wanted_end(&self) -> Option<u64> {
        self.wanted
    }

    /// The next instruction.
    pub(crate) fn next(&mut self) -> Result<Op<'a>> {
        let start = self.at;
        let [code] = self.array()?;
        Ok(match code {
            0x80 => Op::Proto(self.u8()?),
            0x95 => Op::Frame(self.u64()?),
            b'.' => Op::Stop,
            b'(' => Op::Mark,
            b'0' => Op::Pop,
            b'1' => Op::PopMark,
            b'2' => Op::Dup,
            b'N' => Op::None,
            0x88 => Op::Bool(true),
            0x89 => Op::Bool(false),
            b'I' => self.int_line(start)?,
            b'L' => self.long_line(start)?,
            b'J' => Op::Int(i32::from_le_bytes(self.array()?).into()),
            b'K' => Op::Int(self.u8()?.into()),
            b'M' => Op::Int(u16::from_le_bytes(self.array()?).into()),
            0x8a => {
                let length = self.u8()?;
                long(self.payload(length.into(), start)?)
            }
            0x8b => {
                let length = i32::from_le_bytes(self.array()?);
                let length = u64::try_from(length).map_err(|_| malformed(start, "an integer of negative length"))?;
                long(self.payload(length, start)?)
            }
            b'F' => {
                let text = std::str::from_utf8(self.line()?).ok().and_then(|text| text.trim().parse().ok());
                Op::Float(text.ok_or_else(|| malformed(start, "text that is not a number"))?)
            }
            b'G' => Op::Float(f64::from_be_bytes(self.array()?)),
            b'S' => Op::QuotedString(self.line()?),
            b'T' => {
                let length = i32::from_le_bytes(self.array()?);
                let length = u64::try_from(length).map_err(|_| malformed(start, "a string of negative length"))?;
                Op::String(self.payload(length, start)?)
            }
            b'U' => Op::String(self.counted(1, start)?),
            b'V' => Op::EscapedText(self.line()?),
            b'X' => Op::Text(self.counted(4, start)?),
            0x8c => Op::Text(self.counted(1, start)?),
            0x8d => Op::Text(self.counted(8, start)?),
            b'B' => Op::Bytes(self.counted(4, start)?),
            b'C' => Op::Bytes(self.counted(1, start)?),
            0x8e => Op::Bytes(self.counted(8, start)?),
            0x96 => Op::ByteArray(self.counted(8, start)?),
            0x97 => Op::NextBuffer,
            0x98 => Op::ReadonlyBuffer,
            b')' => Op::TupleOf(0),
            0x85 => Op::TupleOf(1),
            0x86 => Op::TupleOf(2),
            0x87 => Op::TupleOf(3),
            b't' => Op::Tuple,
            b']' => Op::EmptyList,
            b'l' => Op::List,
            b'a' => Op::Append,
            b'e' => Op::Appends,
            b'}' => Op::EmptyDict,
            b'd' => Op::Dict,
            b's' => Op::SetItem,
            b'u' => Op::SetItems,
            0x8f => Op::EmptySet,
            0x90 => Op::AddItems,
            0x91 => Op::FrozenSet,
            b'g' => Op::Get(self.index_line(start)?),
            b'h' => Op::Get(self.u8()?.into()),
            b'j' => Op::Get(u32::from_le_bytes(self.array()?).into()),
            b'p' => Op::Put(self.index_line(start)?),
            b'q' => Op::Put(self.u8()?.into()),
            b'r' => Op::Put(u32::from_le_bytes(self.array()?).into()),
            0x94 => Op::Memoize,
            b'c' => Op::Global(self.line()?, self.line()?),
            0x93 => Op::StackGlobal,
            b'i' => Op::Inst(self.line()?, self.line()?),
            b'o' => Op::Obj,
            0x81 => Op::NewObj,
            0x92 => Op::NewObjEx,
            b'R' => Op::Reduce,
            b'b' => Op::Build,
            0x82 => Op::Ext(self.u8()?.into()),
            0x83 => Op::Ext(u16::from_le_bytes(self.array()?).into()),
            0x84 => Op::Ext(u32::from_le_bytes(self.array()?)),
            b'P' => Op::PersId(self.line()?),
            b'Q' => Op::BinPersId,
            other => return Err(malformed(start, &format!("0x{other:02x}, which is not an opcode"))),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let Some(taken) = taken else {
            self.ran_out = true;
            self.wanted = Some((self.at as u64).saturating_add(count as u64));
            let (at, end) = (self.at, self.bytes.len());
            return Err(AnamnesisError::parse(format!(
                "the pickle ends at byte {end}, {count} bytes at {at} are missing"
            )));
        };
        self.at += count;
        Ok(taken)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let mut array = [0; BYTES];
        array.copy_from_slice(self.take(BYTES)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes with a length prefix of 1, 4 or 8 bytes.
    fn counted(&mut self, length_bytes: usize, start: usize) -> Result<&'a [u8]> {
        let mut length = [0; 8];
        length[..length_bytes].copy_from_slice(self.take(length_bytes)?);
        self.payload(u64::from_le_bytes(length), start)
    }

    fn payload(&mut self, length: u64, start: usize) -> Result<&'a [u8]> {
        if length > MAX_PICKLE_PAYLOAD {
            self.wanted = Some((self.at as u64).saturating_add(length));
            let message =
                format!("byte {start} of the pickle announces {length} bytes, {MAX_PICKLE_PAYLOAD} are allowed");
            return Err(AnamnesisError::limit("MAX_PICKLE_PAYLOAD", message));
        }
        // The cap is far below 2^32.
        self.take(length as usize)
    }

    /// Bytes up to a newline, which is consumed.
    fn line(&mut self) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let limit = usize::try_from(MAX_PICKLE_PAYLOAD).unwrap_or(usize::MAX);
        match rest.iter().take(limit).position(|&byte| byte == b'\n') {
            Some(length) => {
                let line = self.take(length)?;
                self.take(1)?;
                Ok(line)
            }
            None if rest.len() > limit => {
                let message = format!("the line at byte {} of the pickle has no end within {limit} bytes", self.at);
                Err(AnamnesisError::limit("MAX_PICKLE_PAYLOAD", message))
            }
            None => self.take(rest.len() + 1),
        }
    }

    /// `INT`: an integer, or a bool of protocol 0.
    fn int_line(&mut self, start: usize) -> Result<Op<'a>> {
        match self.line()? {
            b"00" => Ok(Op::Bool(false)),
            b"01" => Ok(Op::Bool(true)),
            digits => decimal(digits, start),
        }
    }

    fn long_line(&mut self, start: usize) -> Result<Op<'a>> {
        let line = self.line()?;
        decimal(line.strip_suffix(b"L").unwrap_or(line), start)
    }

    fn index_line(&mut self, start: usize) -> Result<u64> {
        let text = std::str::from_utf8(self.line()?).ok().and_then(|text| text.trim().parse().ok());
        text.ok_or_else(|| malformed(start, "an index that is not a number"))
    }
}

fn decimal(digits: &[u8], start: usize) -> Result<Op<'_>> {
    let digits = digits.trim_ascii();
    if let Some(value) = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()) {
        return Ok(Op::Int(value));
    }
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.iter().all(u8::is_ascii_digit) {
        return Err(malformed(start, "text that is not an integer"));
    }
    Ok(Op::LongText(digits))
}

/// A little-endian integer in two's complement.
fn long(bytes: &[u8]) -> Op<'_> {
    if bytes.len() > 8 {
        return Op::LongBytes(bytes);
    }
    let is_negative = bytes.last().is_some_and(|&highest| highest >= 0x80);
    let mut value = [if is_negative { 0xff } else { 0 }; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    Op::Int(i64::from_le_bytes(value))
}

pub(super) fn malformed(at: usize, what: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("byte {at} of the pickle: {what}"))
}
